"""Publishing the build file as the one that analysts open."""
