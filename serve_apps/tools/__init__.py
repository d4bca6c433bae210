"""The tools that agents call: the query path in the shapes that MCP hosts expect."""
