"""Node tests made for the signatures that the standard's own tests do not reach.

A `Blueprint` says what one test is to be: the operator, its attributes, and of each input the
element type, the sizes, and the values where they steer the operator. It comes from a node of a
model (`from_model`), from the standard's schemas (`sweep`), or from another blueprint
(`variations`). `values` fills it with numbers in which a wrong meaning shows, `build` makes it a
model. What such a model must give, oracles say elsewhere.
"""
