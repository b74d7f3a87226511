"""Commands that look at a mirror and change nothing, but for the rejected lines that `wme rejects --retry` reads again."""
