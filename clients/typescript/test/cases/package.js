// The package as it is published: packed, installed in an empty folder, compiled there as strictly as can be, and run; the blocks of both
// READMEs among what is compiled and run.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { client, test, until } from "../server.js";

const here = fileURLToPath(new URL("../../", import.meta.url));
const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
const call = promisify(execFile);

/** What each block prints, in their order. */
const PRINTED = {
  "README.md": ["v2.3", "agent.data 48211 true", "[ 'HELLO', 'WORLD' ]", "{ report: { lines: 3, ready: true } }", "Wait a day", "v2.3"],
  "../../README.md": ["v2.3"],
};

const blocks = (file) => readFileSync(join(here, file), "utf8").split("```ts\n").slice(1).map((part) => part.split("```")[0]);

/** Answers the question that a block asks. */
async function decide() {
  const ada = client("ada");
  const open = await until(async () => {
    const { moments } = await ada.request("get", "/api/v1/moments/inbox", { query: {} });
    return moments.find(({ state, agent_id }) => state === "open" && agent_id === "agent.data");
  }, "the question");
  await ada.request("post", "/api/v1/moments/{moment_id}/resolution",
    { path: { moment_id: open.id }, body: { envelope_digest: open.envelope_digest, resolution: { kind: "option", option_idx: 1 } } });
}

test("the generated files are those of the OpenAPI document", () => {
  execFileSync(process.execPath, [join(here, "scripts", "generate.mjs"), "--check"]);
});

test("the package is installed, compiled and used in an empty folder, as the READMEs say", async () => {
  const folder = mkdtempSync(join(tmpdir(), "entente-package-"));
  try {
    const [{ filename, files }] = JSON.parse(execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], { cwd: here }));
    const strange = files.map(({ path }) => path).filter((path) => !/^(dist\/[\w/]+\.(js|d\.ts)|package\.json|README\.md)$/.test(path));
    assert.deepEqual(strange, []);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
    execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", `./${filename}`], { cwd: folder });
    const programs = [];
    for (const [file, printed] of Object.entries(PRINTED)) {
      assert.equal(blocks(file).length, printed.length, `blocks in ${file}`);
      for (const [at, block] of blocks(file).entries()) {
        const name = `block-${programs.length}`;
        writeFileSync(join(folder, `${name}.ts`), block);
        programs.push({ name, text: printed[at], isDecision: block.includes("decisions.ask") });
      }
    }
    // A member that does not exist must not compile, or the compilation says nothing.
    writeFileSync(join(folder, "wrong.ts"), 'import { Entente } from "entente-client";\n'
      + '// @ts-expect-error The operation has no such path.\nawait new Entente().request("get", "/api/v1/nothing", {});\n'
      + '// @ts-expect-error A title is missing.\nawait new Entente().request("post", "/api/v1/intents", { body: {} });\n');
    const strict = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--noUncheckedIndexedAccess"];
    const sources = ["wrong", ...programs.map(({ name }) => name)].map((name) => `${name}.ts`);
    const compile = (...more) => call(process.execPath, [tsc, ...strict, ...more, ...sources], { cwd: folder })
      .catch(({ stdout }) => assert.fail(stdout));
    // The declarations of the package are checked, too; those of the language would take most of the time.
    await Promise.all([compile("--module", "nodenext", "--moduleResolution", "nodenext", "--skipDefaultLibCheck"),
      compile("--module", "esnext", "--moduleResolution", "bundler", "--noEmit", "--skipLibCheck")]);
    await Promise.all(programs.map(async ({ name, text, isDecision }) => {
      const running = call(process.execPath, [`${name}.js`], { cwd: folder, timeout: 60_000 });
      const [{ stdout }] = await Promise.all([running, isDecision && decide()]);
      assert.equal(stdout.trim(), text, name);
    }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
