"""The Slack bot: answers in threads, as whoever asked, and to a channel only what everyone in it may open."""
