"""The Merkle tree against published vectors, the RFC's own example, and its definition."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.release.merkle import EMPTY_ROOT, Tree, extends, includes, leaf_hash, node_hash

# Published with the Certificate Transparency reference implementations: eight leaves, and the root
# over the first of them, the first two, and so on.
LEAVES = [
    bytes.fromhex(leaf)
    for leaf in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
INCLUSIONS = {
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
}
CONSISTENCIES = {
    (2, 5): (
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}


def naive(leaves: list[bytes]) -> bytes:
    """Return the root by the recursion of RFC 6962, 2.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return hashlib.sha256(b"\x01" + naive(leaves[:half]) + naive(leaves[half:])).digest()


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_the_published_ones(size: int) -> None:
    """Grown to a size, and looked back at from a larger one."""
    assert Tree(LEAVES[:size]).root().hex() == ROOTS[size - 1]
    assert Tree(LEAVES).root(size).hex() == ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    """RFC 6962, 2.1."""
    assert Tree().root() == EMPTY_ROOT == naive([])


@pytest.mark.parametrize(("index", "size"), INCLUSIONS)
def test_inclusion_proofs_are_the_published_ones(index: int, size: int) -> None:
    """One for the first leaf and one in the middle."""
    path = Tree(LEAVES).inclusion(index, size)
    assert tuple(item.hex() for item in path) == INCLUSIONS[index, size]


@pytest.mark.parametrize(("old", "size"), CONSISTENCIES)
def test_consistency_proofs_are_the_published_ones(old: int, size: int) -> None:
    """Two heads of one log."""
    path = Tree(LEAVES).consistency(old, size)
    assert tuple(item.hex() for item in path) == CONSISTENCIES[old, size]


def test_proofs_are_those_of_the_rfcs_example() -> None:
    """RFC 6962, 2.1.3: seven leaves, its names for the nodes."""
    a, b, c, d, e, f, j = (leaf_hash(leaf) for leaf in LEAVES[:7])
    g, h, i = node_hash(a, b), node_hash(c, d), node_hash(e, f)
    k, el = node_hash(g, h), node_hash(i, j)
    tree = Tree(LEAVES[:7])
    assert tree.inclusion(0) == (b, h, el)
    assert tree.inclusion(3) == (c, g, el)
    assert tree.inclusion(4) == (f, j, k)
    assert tree.inclusion(6) == (i, k)
    assert tree.consistency(3) == (c, d, g, el)
    assert tree.consistency(4) == (el,)
    assert tree.consistency(6) == (i, j, k)


def test_every_proof_up_to_forty_leaves_holds_and_no_other_does() -> None:
    """Each leaf at each size and each pair of sizes; a wrong index, size, root or path does not."""
    leaves = [bytes([number]) for number in range(40)]
    tree = Tree(leaves)
    for size in range(1, 41):
        root = tree.root(size)
        assert root == naive(leaves[:size])
        for index in range(size):
            leaf, path = leaf_hash(leaves[index]), tree.inclusion(index, size)
            assert includes(leaf, index, size, path, root)
            assert not includes(leaf, index + 1, size, path, root)
            assert not includes(leaf_hash(b"other"), index, size, path, root)
            assert not includes(leaf, index, size, (*path, root), root)
            assert not includes(leaf, index, size, path[:-1], root) or not path
        for old in range(1, size + 1):
            before, path = tree.root(old), tree.consistency(old, size)
            assert extends(old, before, size, root, path)
            assert not extends(old, leaf_hash(b"other"), size, root, path)
            assert not extends(old, before, size, leaf_hash(b"other"), path)
            assert not extends(old, before, size, root, (*path, root))
            assert not extends(old, before, size, root, path[:-1]) or not path


def test_every_tree_extends_the_empty_one_and_none_a_larger_one() -> None:
    """Nothing was promised about no lines."""
    tree = Tree(LEAVES)
    assert extends(0, EMPTY_ROOT, 8, tree.root(), ())
    assert not extends(0, tree.root(), 8, tree.root(), ())
    assert not extends(8, tree.root(), 7, tree.root(7), ())


def test_refuses_what_is_not_in_the_tree() -> None:
    """A size or leaf beyond the end is a mistake of the caller's."""
    for ask in (
        lambda: Tree(LEAVES).root(9),
        lambda: Tree(LEAVES).inclusion(8),
        lambda: Tree(LEAVES).inclusion(3, 3),
        lambda: Tree(LEAVES).consistency(0),
        lambda: Tree(LEAVES).consistency(5, 4),
    ):
        with pytest.raises(ValueError, match="no such leaf"):
            ask()


@given(data=st.data(), leaves=st.lists(st.binary(max_size=8), min_size=1, max_size=200))
def test_any_flipped_bit_breaks_a_proof(data: st.DataObject, leaves: list[bytes]) -> None:
    """The path, the leaf and the root are all bound."""
    tree = Tree(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    parts = [leaf_hash(leaves[index]), tree.root(), *tree.inclusion(index)]
    at = data.draw(st.integers(0, len(parts) - 1))
    byte, bit = data.draw(st.integers(0, 31)), data.draw(st.integers(0, 7))
    assert includes(parts[0], index, len(leaves), parts[2:], parts[1])
    spoilt = bytearray(parts[at])
    spoilt[byte] ^= 1 << bit
    parts[at] = bytes(spoilt)
    assert not includes(parts[0], index, len(leaves), parts[2:], parts[1])
