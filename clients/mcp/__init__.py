"""`cortex mcp`: Cortex as a tool of an assistant that starts programs and speaks MCP with them."""
