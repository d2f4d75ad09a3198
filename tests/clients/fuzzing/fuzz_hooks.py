# Hooks for Schemathesis: requests of two principals, on records that exist.
#
# Random identifiers would find nothing but 404. So each response's identifiers go into a pool by name, and most path
# parameters are drawn from it.

import json
import os
import random
from collections import defaultdict

import schemathesis

KEYS = os.environ["FUZZ_KEYS"].split(",")
random.seed(int(os.environ["FUZZ_SEED"]))
# Longest wait in seconds, by the parameter that asks for it: a fuzzer learns nothing from waiting.
WAITS = {"wait": 0, "timeout": 1, "timeout_seconds": 1}
KNOWN = defaultdict(list)
POOL_LIMIT = 50
DEPTH = 6


def learn(noun, value, depth=0):
    """Adds the identifiers in a response's JSON to the pool."""
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, str) and 0 < len(member) < 200 and "\0" not in member:
                key = f"{noun}_id" if name == "id" else name
                if key.endswith("_id") or key in ("entity", "name", "key"):
                    known = KNOWN[key]
                    if member not in known:
                        known.append(member)
                        del known[:-POOL_LIMIT]
            elif depth < DEPTH:
                learn(name.rstrip("s") if isinstance(member, list) else name, member, depth + 1)
    elif isinstance(value, list):
        for member in value[:20]:
            learn(noun, member, depth + 1)


@schemathesis.hook
def map_path_parameters(ctx, parameters):
    for name in parameters or {}:
        known = KNOWN.get(name)
        if known and random.random() < 0.8:
            parameters[name] = random.choice(known)
    return parameters


def shorten(parameters):
    """Replaces each valid wait by a short one. What is no number stays: the server must refuse it."""
    for name in WAITS.keys() & parameters.keys():
        try:
            seconds = float(parameters[name])
        except (TypeError, ValueError):
            continue
        if seconds > WAITS[name]:
            parameters[name] = WAITS[name]


@schemathesis.hook
def map_body(ctx, body):
    if isinstance(body, dict):
        for name, member in body.items():
            known = KNOWN.get(name)
            if known and isinstance(member, str) and random.random() < 0.7:
                body[name] = random.choice(known)
    return body


@schemathesis.hook
def before_call(ctx, case, kwargs):
    # Here and not in a `map_` hook, because those see no request of the coverage phase.
    if isinstance(case.query, dict):
        shorten(case.query)
    if isinstance(case.body, dict) and case.operation.path.endswith("/ask"):
        case.body.setdefault("timeout", WAITS["timeout"])
        shorten(case.body)
    case.headers = dict(case.headers or {})
    for name in [name for name in case.headers if name.lower() in ("x-api-key", "authorization")]:
        del case.headers[name]
    case.headers["X-API-Key"] = random.choice(KEYS)


@schemathesis.hook
def after_call(ctx, case, response):
    if response.status_code < 300 and "json" in str(response.headers.get("content-type")):
        try:
            body = response.json()
        except ValueError:
            return
        segments = [part for part in case.operation.path.split("/") if part and not part.startswith("{")]
        learn(segments[-1].rstrip("s") if segments else "", body)


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    """Serialises a batch as one JSON text a line."""
    entries = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(entry) for entry in entries).encode()
