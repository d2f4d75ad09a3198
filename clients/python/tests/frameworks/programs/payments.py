# What all of the agents have: a tool that pays, and a model that has its mind made up.

import json
import uuid


def pay(ledger, amount, to):
    """Pays: a line in a file."""
    with open(ledger, "a") as book:
        book.write(json.dumps([amount, to]) + "\n")
    return f"paid {amount} to {to}"


def proposed(prompt):
    """The calls that a prompt of such an agent asks for, with fresh ids, as a model gives them."""
    return [(f"call_{uuid.uuid4().hex[:12]}", one) for one in json.loads(prompt)]


def said(results):
    """The model's last words, of what it was told of its calls."""
    return " | ".join(str(one) for one in results)
