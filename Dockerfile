# syntax=docker/dockerfile:1
# Entente in a container: built from source, then the binary alone on a slim Debian. It needs a PostgreSQL elsewhere
# (DATABASE_URL); the private PostgreSQL of `entente dev` is not for containers, so its programs are not here.

FROM rust:1.95-slim-trixie AS build
WORKDIR /src
# Queries are checked against the recorded schema in .sqlx. Names of functions stay in the binary for backtraces, the
# much larger line tables do not.
ENV SQLX_OFFLINE=true \
    CARGO_PROFILE_RELEASE_STRIP=debuginfo
COPY Cargo.toml Cargo.lock build.rs ./
COPY .sqlx .sqlx
COPY migrations migrations
COPY openapi openapi
COPY CONFORMANCE.md CONFORMANCE.md
COPY templates templates
COPY assets assets
COPY crates crates
COPY src src
# The commit that `entente --version` prints; the repository itself is not sent to the builder.
ARG BUILD_COMMIT
# What was downloaded and compiled before is kept between builds, so that a change compiles only itself.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    BUILD_COMMIT=$BUILD_COMMIT cargo build --release --locked --bin entente && \
    cp target/release/entente /entente

FROM debian:trixie-slim
# Certificate authorities, for a bus over TLS (NATS). What the server asks of others over HTTPS trusts those compiled in.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /entente /usr/local/bin/entente
# Nobody in particular: the server writes no file and needs no account.
USER 10001:10001
WORKDIR /
# In a container the loopback address reaches nobody. Put a proxy that ends TLS in front.
ENV ENTENTE_BIND=0.0.0.0:8080 \
    ENTENTE_LOG_FORMAT=json
EXPOSE 8080
# It reads the same settings as the server, so it knows the port, and whether the listener has TLS.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["entente", "ready"]
ENTRYPOINT ["entente"]
CMD ["serve"]
