"""The frozen records that travel along the data path, one module per arrow.

Records hold scalars, digests and paths, never arrays, so that every stage can be cut and carried to
another machine as canonical JSON (`records.codec`).
"""
