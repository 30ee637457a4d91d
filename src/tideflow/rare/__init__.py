"""What few programs call, from many families: each module is imported when its names are asked for.

The names are in `ops/later.txt`; nothing imports a module of this package.
"""
