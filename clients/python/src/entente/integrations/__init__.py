"""Agent frameworks on Entente, each in a module of its own, which needs that framework: `pip install "./clients/python[langgraph]"`
in a clone of Entente.

`Person` says who decides. Every module puts a framework's own question to them, and gives the answer back in the framework's own form.
"""

from .._approvals import Call, Verdict
from .person import Person

__all__ = ["Call", "Person", "Verdict"]
