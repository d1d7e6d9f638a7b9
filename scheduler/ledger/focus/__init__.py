"""The books in the columns of FOCUS, the FinOps open cost and usage specification.

`columns` says which columns a version has, `rows` fills them, `rules` reads an export and names
what is wrong with it. The rules are our own reading of the specification's text for versions 1.2
and 1.3; they are no official validation.
"""
