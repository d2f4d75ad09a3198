-- What a presented key is compared with: its SHA-256. A key has 256 bits of chance, so nobody finds it by trying, and a slow
-- hash protects nothing that a fast one does not. Null: the key was made by an earlier release; its argon2id hash is verified
-- once, and then this is written.
ALTER TABLE keys ADD COLUMN secret_sha256 bytea CONSTRAINT keys_secret_sha256_bytes CHECK (octet_length(secret_sha256) = 32);

-- `secret_hash` stays while a release that only knows that one may serve beside this one: keys made from now on have an
-- argon2id hash of the least cost there, which that release verifies as any other.
