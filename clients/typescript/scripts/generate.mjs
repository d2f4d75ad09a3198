// Generates src/generated from openapi/entente.json: the types of all operations, and the operations that take an idempotency key.
// With --check it writes nothing, and fails if a file is not current.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const document = JSON.parse(readFileSync(here("../../../openapi/entente.json"), "utf8"));

// Refusals have one form, `EntenteError`, and examples help nobody in a declaration; both would triple the file.
function prune(node) {
  if (Array.isArray(node)) return node.forEach(prune);
  if (node === null || typeof node !== "object") return;
  delete node.example;
  delete node.examples;
  // An object without members is one with any members.
  const isObject = node.type === "object" || (Array.isArray(node.type) && node.type.includes("object"));
  if (isObject && !node.properties) node.additionalProperties ??= true;
  Object.values(node).forEach(prune);
}

const keyed = [];
for (const [path, methods] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const names = (operation.parameters ?? []).map((parameter) => parameter.name?.toLowerCase());
    if (names.includes("idempotency-key")) keyed.push(`${method} ${path}`);
    for (const [status, response] of Object.entries(operation.responses)) {
      delete response.headers;
      if (!status.startsWith("2")) delete operation.responses[status];
    }
  }
}
prune(document);

// A path names the methods that it does not have, too.
const absent = /^ {8}(get|put|post|delete|options|head|patch|trace)\?: never;\n/gm;
const role = "// Generated from openapi/entente.json by scripts/generate.mjs; do not edit.\n\n";
const files = {
  "../src/generated/schema.ts": role + astToString(await openapiTS(document)).replace(absent, ""),
  "../src/generated/keyed.ts": `${role}/** The operations that take an \`Idempotency-Key\`. */
export const keyed: ReadonlySet<string> = new Set([
${keyed.sort().map((operation) => `  ${JSON.stringify(operation)},\n`).join("")}]);\n`,
};
for (const [path, text] of Object.entries(files)) {
  if (!process.argv.includes("--check")) writeFileSync(here(path), text);
  else if (readFileSync(here(path), "utf8") !== text) {
    console.error(`clients/typescript/${path.slice(3)} is not that of openapi/entente.json: run \`npm run generate\` there.`);
    process.exit(1);
  }
}
