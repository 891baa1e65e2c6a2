"""Programs for libraries that need an environment of their own. They import nothing of this one."""
