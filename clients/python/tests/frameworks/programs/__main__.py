# python -m programs NAME PERSON RUN PROMPT LEDGER: runs an agent in a process of its own, which can be killed.

import importlib
import sys

if __name__ == "__main__":
    name, person, run, prompt, ledger = sys.argv[1:]
    print(importlib.import_module(f"programs.{name}").go(person, run, prompt, ledger))
