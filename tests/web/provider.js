// Providers of accounts on the loopback address: a real one (oidc-provider) with a page to log in on, and one that lies as
// it is told. And a visitor without a browser, for requests that no browser would send.

import { createHash, createHmac, createSign, generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import assert from "node:assert/strict";
import Provider from "oidc-provider";

export const CLIENT = "entente";
export const SECRET = "a secret of the client that is nowhere else";

/** Returns a port that was free a moment ago. */
export async function freePort() {
  const server = await listen(createServer());
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function listen(server, port = 0) {
  return new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(server)));
}

async function bodyOf(request) {
  let text = "";
  for await (const bytes of request) text += bytes;
  return new URLSearchParams(text);
}

/** Starts a real provider for these redirect URLs. `accounts` has the claims of each; tests change them. */
export async function provide(redirects) {
  const port = await freePort();
  // Another site than 127.0.0.1, to the browser as to the server.
  const issuer = `http://localhost:${port}`;
  const accounts = new Map();
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT, client_secret: SECRET, redirect_uris: redirects, grant_types: ["authorization_code"], response_types: ["code"] }],
    claims: { openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
    cookies: { keys: [randomBytes(16).toString("hex")] },
    jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig" }] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, sub) => accounts.has(sub) && { accountId: sub, claims: () => ({ sub, ...accounts.get(sub) }) },
    async loadExistingGrant(ctx) {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid profile email groups");
      await grant.save();
      return grant;
    },
  });
  const answer = provider.callback();
  const server = await listen(createServer(async (request, response) => {
    if (!request.url.startsWith("/interaction/")) return answer(request, response);
    if (request.method === "GET") {
      response.setHeader("content-type", "text/html");
      return response.end(`<!doctype html><html lang="en"><title>Provider</title><form method="post"><label>Account <input name="account"></label>
        <button>Sign in</button> <button name="cancel" value="yes">Cancel</button></form></html>`);
    }
    const form = await bodyOf(request);
    const result = form.get("cancel") ? { error: "access_denied", error_description: "<b>changed my mind</b>" } : { login: { accountId: form.get("account") } };
    return provider.interactionFinished(request, response, result);
  }), port);
  return { issuer, accounts, stop: () => stop(server) };
}

function stop(server) {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
}

const encoded = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

function keyPair(kid) {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { kid, privateKey, jwk: { ...publicKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" } };
}

function signed(claims, key, header = {}) {
  const text = `${encoded({ alg: "RS256", kid: key.kid, ...header })}.${encoded(claims)}`;
  return `${text}.${createSign("RSA-SHA256").update(text).sign(key.privateKey).toString("base64url")}`;
}

/** Starts a provider that can lie: `lie` changes claims and key of an ID token, and `frozen` lets it answer nothing. */
export async function pretend() {
  const port = await freePort();
  const issuer = `http://localhost:${port}`;
  const told = { issuer, claims: {}, lie: undefined, frozen: false, asked: 0, key: keyPair("one"), stranger: keyPair("one") };
  const codes = new Map();
  const tokenFor = (begun) => {
    const now = Math.floor(Date.now() / 1000);
    const honest = { iss: issuer, aud: CLIENT, iat: now, exp: now + 300, nonce: begun.get("nonce"), ...told.claims };
    return told.lie ? told.lie(honest, told) : signed(honest, told.key);
  };
  const answer = async (request, response) => {
    told.asked += 1;
    if (told.frozen) return undefined;
    const url = new URL(request.url, issuer);
    const send = (value, status = 200) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    switch (url.pathname) {
      case "/.well-known/openid-configuration":
        return send({ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`,
          response_types_supported: ["code"], subject_types_supported: ["public"], id_token_signing_alg_values_supported: ["RS256"],
          token_endpoint_auth_methods_supported: ["client_secret_post"] });
      case "/keys":
        return send({ keys: [told.key.jwk] });
      case "/authorize": {
        const code = randomBytes(12).toString("hex");
        codes.set(code, url.searchParams);
        const back = new URL(url.searchParams.get("redirect_uri"));
        back.search = new URLSearchParams({ code, state: url.searchParams.get("state") });
        response.writeHead(303, { location: back.href });
        return response.end();
      }
      case "/token": {
        const form = await bodyOf(request);
        const begun = codes.get(form.get("code"));
        codes.delete(form.get("code"));
        const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
        if (form.get("client_secret") !== SECRET) return send({ error: "invalid_client" }, 401);
        if (!begun || begun.get("code_challenge") !== challenge) return send({ error: "invalid_grant" }, 400);
        return send({ access_token: "an access token", token_type: "Bearer", id_token: tokenFor(begun) });
      }
      default:
        return send({ error: "not_found" }, 404);
    }
  };
  let server = await listen(createServer(answer), port);
  return Object.assign(told, {
    stop: () => stop(server),
    again: async () => { server = await listen(createServer(answer), port); },
  });
}

/** Ways to make a token that must not be believed, by name. */
export const LIES = {
  "the nonce of another login": (claims, { key }) => signed({ ...claims, nonce: "another" }, key),
  "no nonce": ({ nonce, ...claims }, { key }) => signed(claims, key),
  "another audience": (claims, { key }) => signed({ ...claims, aud: "somebody else" }, key),
  "a further audience": (claims, { key }) => signed({ ...claims, aud: [CLIENT, "somebody else"] }, key),
  "another issuer": (claims, { key }) => signed({ ...claims, iss: "https://elsewhere.example" }, key),
  "a token of yesterday": (claims, { key }) => signed({ ...claims, exp: claims.iat - 86400 }, key),
  "the key of a stranger": (claims, { stranger }) => signed(claims, stranger),
  "no signature": (claims) => `${encoded({ alg: "none" })}.${encoded(claims)}.`,
  "the client's secret as the key": (claims) => {
    const text = `${encoded({ alg: "HS256" })}.${encoded(claims)}`;
    return `${text}.${createHmac("sha256", SECRET).update(text).digest("base64url")}`;
  },
  "the public key as the key": (claims, { key }) => {
    const text = `${encoded({ alg: "HS256", kid: key.kid })}.${encoded(claims)}`;
    return `${text}.${createHmac("sha256", Buffer.from(key.jwk.n, "base64url")).update(text).digest("base64url")}`;
  },
  "claims changed after the signature": (claims, { key }) => {
    const [header, , signature] = signed(claims, key).split(".");
    return `${header}.${encoded({ ...claims, sub: "another" })}.${signature}`;
  },
  "no token": () => undefined,
  "no token at all but words": () => "not.a.token",
};

/** A visitor without a browser: keeps cookies by host, as browsers do, and follows no redirect by itself. */
export class Visitor {
  cookies = new Map();

  async go(url, form) {
    const host = new URL(url).hostname;
    const jar = this.cookies.get(host) ?? new Map();
    this.cookies.set(host, jar);
    const headers = { cookie: [...jar].map((pair) => pair.join("=")).join("; ") };
    if (form) Object.assign(headers, { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" });
    const answer = await fetch(url, { redirect: "manual", method: form ? "POST" : "GET", headers, body: form && new URLSearchParams(form) });
    for (const cookie of answer.headers.getSetCookie()) {
      const [name, ...value] = cookie.split(";")[0].split("=");
      if (/max-age=0|expires=thu, 01 jan 1970/i.test(cookie)) jar.delete(name);
      else jar.set(name, value.join("="));
    }
    const location = answer.headers.get("location");
    return { url, status: answer.status, headers: answer.headers, text: await answer.text(), location: location && new URL(location, url).href };
  }

  /** Begins a login at `start` and logs in at the provider as `account`; returns the URL that leads back, unopened. */
  async toCallback(start, account) {
    let answer = await this.go(start);
    assert.equal(answer.status, 303, answer.text);
    for (let steps = 0; steps < 10; steps += 1) {
      if (answer.location?.includes("/login/provider/callback")) return answer.location;
      answer = answer.location ? await this.go(answer.location) : await this.go(answer.url, account === null ? { cancel: "yes" } : { account });
      assert.ok(answer.status < 400, `${answer.status} ${answer.text}`);
    }
    throw new Error(`the provider does not lead back: ${answer.url}`);
  }

  /** Logs in as `account`; returns the last page. */
  async logIn(server, account, next = "/inbox") {
    return this.go(await this.toCallback(`${server}/login/provider?next=${encodeURIComponent(next)}`, account));
  }

  /** Returns the key in the login cookie. */
  key(host = "127.0.0.1") {
    return this.cookies.get(host)?.get("entente");
  }
}

/** Returns the complaint on a page. */
export const complaint = (page) => page.text.match(/role="alert">([^<]*)</)?.[1] ?? `no complaint in ${page.text}`;
