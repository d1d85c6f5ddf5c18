"""Calls tools of a server of the Model Context Protocol with the official client.

mcp_client.py MODE PROGRAM ARGUMENT... < lines of JSON, each with `tool` and `arguments`
MODE is `auto`, which discovers the server's newest revision, or `legacy`, which begins with `initialize`.
Prints a line of JSON with the revision, the server and the tools, then one for each call: `error` or `result`.
"""

import asyncio
import json
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError


async def main() -> None:
    mode, program, *arguments = sys.argv[1:]
    calls = [json.loads(line) for line in sys.stdin]
    server = StdioServerParameters(command=program, args=arguments)
    async with Client(stdio_client(server), mode=mode) as client:
        tools = (await client.list_tools()).tools
        shown = [{"name": tool.name, "read_only": tool.annotations.read_only_hint, "schema": tool.input_schema} for tool in tools]
        print(json.dumps({"revision": client.protocol_version, "instructions": bool(client.instructions), "tools": shown}), flush=True)
        for call in calls:
            try:
                called = await client.call_tool(call["tool"], call["arguments"])
            except MCPError as error:
                print(json.dumps({"refused": error.error.message}), flush=True)
                continue
            text = called.content[0].text
            shown = {"error": text} if called.is_error else {"result": called.structured_content}
            if not called.is_error:
                assert json.loads(text) == called.structured_content
            print(json.dumps(shown), flush=True)


asyncio.run(main())
