"""A stand-in for SemIf's package, which is on no index: the same two functions over the same arguments, written by us.

It really asks the model. It notes what it returns, and a row's state makes it fail as a model can.
"""
