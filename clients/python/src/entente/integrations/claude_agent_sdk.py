"""Claude Agent SDK: permission prompts are put to a person.

    options = ClaudeAgentOptions(can_use_tool=approvals("human.ada"))
    async with ClaudeSDKClient(options) as claude: ...

Claude asks for permission where its own rules (`allowed_tools`, `permission_mode`) do not decide. With `Person("human.ada", run="q1")` in
place of the name, a killed program finds its questions again when it is started anew.
"""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import CanUseTool, PermissionResult, PermissionResultAllow, PermissionResultDeny, ToolPermissionContext

from .._approvals import Call
from .person import Person, of


def approvals(person: Person | str) -> CanUseTool:
    """Returns a `can_use_tool` that asks a person."""
    who = of(person)

    async def can_use_tool(tool: str, arguments: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        # A session that begins again makes a new id of every call, so a question is found by what it asks.
        reasons = (context.title, context.description, context.decision_reason, context.blocked_path)
        told = " ".join(dict.fromkeys(one for one in reasons if one))
        verdict = await who.aapprove(Call(tool, arguments, description=told))
        if verdict.approved:
            return PermissionResultAllow(updated_input=verdict.arguments)
        return PermissionResultDeny(message=verdict.message)

    return can_use_tool
