"""Functions of users in the place of public ones, for arguments of certain classes.

`interception` gets into the calls of a function, `apis` says who takes them; `by_type` and
`elementwise` choose by the classes of arguments, and `fallback` asks dispatchers of libraries when
a function does not take its arguments.
"""
