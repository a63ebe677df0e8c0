"""The console in a browser; a package, so that what its tests share ends with the last of them."""
