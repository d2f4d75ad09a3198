# A server of MCP's own Python SDK, unmodified, with a tool, resources and a prompt.

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("conform", host="127.0.0.1", port=int(sys.argv[1]), log_level="WARNING")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.resource("conform://notes")
def notes() -> str:
    """Notes."""
    return "Nothing yet."


@server.resource("conform://notes/{name}")
def note(name: str) -> str:
    """One note."""
    return name


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}."


server.run(transport="streamable-http")
