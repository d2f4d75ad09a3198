// Signed envelopes (AEE 1): keys of Ed25519 over WebCrypto, the canonical form (RFC 8785), and the profile `aee-jcs-1` (AEE-W-9).

import type { JsonObject } from "./core.js";

const ALGORITHM = "Ed25519";
const PROFILE = "aee-jcs-1";

/** An envelope: what the sender says, and what the gateway needs. */
export interface Envelope {
  v: "1";
  id: string;
  type: "task" | "result" | "event" | "error" | "stream";
  from: string;
  to: string;
  intent: string;
  ts: string;
  corr: string;
  priority?: "low" | "normal" | "high" | "urgent";
  reply_to?: string | null;
  payload: unknown;
  sig?: { alg: string; kid: string; value: string; profile: string };
  [member: string]: unknown;
}

/** Returns the canonical form of JSON (RFC 8785). */
export function canonical(value: unknown): string {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError("A number that is not finite has no canonical form.");
  if (typeof value === "string" && /\p{Surrogate}/u.test(value)) throw new TypeError("A text with half a surrogate pair has no canonical form.");
  if (value === null || typeof value !== "object") {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`A value of type ${typeof value} is no JSON.`);
    return text;
  }
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item ?? null)).join(",")}]`;
  if ("toJSON" in value && typeof value.toJSON === "function") return canonical(value.toJSON());
  // The order is that of UTF-16 code units, which is JavaScript's own.
  const members = Object.entries(value).filter(([, member]) => member !== undefined).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${canonical(name)}:${canonical(member)}`).join(",")}}`;
}

function base64url(bytes: ArrayBuffer): string {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** A signing key of an entity. It needs node 20, or a browser with Ed25519 in a secure context. */
export class EnvelopeKey {
  readonly #pair: { privateKey: CryptoKey; publicKey: CryptoKey };

  private constructor(
    /** The key's name, unique within its entity. */
    readonly kid: string,
    pair: { privateKey: CryptoKey; publicKey: CryptoKey },
    /** The public half, as it is registered: `ed25519:…`. */
    readonly publicKey: string,
  ) {
    this.#pair = pair;
  }

  /** Generates a key. With `extractable`, `export` returns it for storage. */
  static async generate(kid: string, { extractable = false } = {}): Promise<EnvelopeKey> {
    const pair = await crypto.subtle.generateKey(ALGORITHM, extractable, ["sign", "verify"]) as CryptoKeyPair;
    return EnvelopeKey.#of(kid, pair);
  }

  /** Reads what `export` returned: a private and a public half in the form of a JWK (RFC 8037). */
  static async import(kid: string, jwk: JsonObject): Promise<EnvelopeKey> {
    const { d: _, ...open } = jwk;
    const [privateKey, publicKey] = await Promise.all([
      crypto.subtle.importKey("jwk", { ...jwk, key_ops: ["sign"] }, ALGORITHM, false, ["sign"]),
      crypto.subtle.importKey("jwk", { ...open, key_ops: ["verify"] }, ALGORITHM, true, ["verify"]),
    ]);
    return EnvelopeKey.#of(kid, { privateKey, publicKey });
  }

  static async #of(kid: string, pair: { privateKey: CryptoKey; publicKey: CryptoKey }): Promise<EnvelopeKey> {
    const raw = await crypto.subtle.exportKey("raw", pair.publicKey);
    return new EnvelopeKey(kid, pair, `ed25519:${base64url(raw)}`);
  }

  /** Returns the key as a JWK, the private half included: keep it secret. */
  async export(): Promise<JsonObject> {
    return { ...(await crypto.subtle.exportKey("jwk", this.#pair.privateKey)) };
  }

  /** Returns the envelope with its signature, which covers all of it. */
  async sign<E extends Envelope>(envelope: E): Promise<E> {
    const { sig: _, ...signed } = envelope;
    const text = new TextEncoder().encode(`${PROFILE}\n${canonical(signed)}`);
    const value = base64url(await crypto.subtle.sign(ALGORITHM, this.#pair.privateKey, text));
    return { ...envelope, sig: { alg: "ed25519", kid: this.kid, value, profile: PROFILE } };
  }
}

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Returns a new ULID, the form of id that AEE asks for. */
export function ulid(time = Date.now()): string {
  let id = "";
  for (let left = time, at = 0; at < 10; at += 1, left = Math.floor(left / 32)) id = CROCKFORD[left % 32] + id;
  for (const byte of crypto.getRandomValues(new Uint8Array(16))) id += CROCKFORD[byte % 32];
  return id;
}
