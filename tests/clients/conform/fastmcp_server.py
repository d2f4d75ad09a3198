# A server of FastMCP, unmodified, with a tool, a resource and a prompt.

import sys

from fastmcp import FastMCP

server = FastMCP("conform")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.resource("conform://notes")
def notes() -> str:
    """Notes."""
    return "Nothing yet."


@server.prompt
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}."


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
