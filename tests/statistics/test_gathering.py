"""Shards summed in a fixed tree: by any number of workers, interrupted, changed and damaged."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from hgkt import gather, open_shards
from hgkt.engines import SerialEngine
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics, gathering
from hgkt.statistics.gathering import Recipe, gather_shards, plan_tree

MAPS = ("sqrt+l2", "l2")


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_same(left, right):
    assert left.classes.tolist() == right.classes.tolist()
    for feature_map in left.feature_maps:
        a, b = left.of(feature_map), right.of(feature_map)
        for name in ("counts", "sums", "second_moment"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for a, b in zip(left.rows(), right.rows(), strict=True):
        np.testing.assert_array_equal(a, b)


class Watched:
    """A shard that writes down when its rows are read."""

    def __init__(self, shard, log):
        self.shard, self.log, self.name = shard, log, shard.name

    def digest(self):
        return self.shard.digest()

    def batches(self):
        self.log.append(self.name)
        return self.shard.batches()


def watched(folder):
    log: list[str] = []
    return [Watched(shard, log) for shard in open_shards(folder, shard_rows=100).shards], log


@pytest.mark.endure
def test_gathering_is_the_same_to_the_bit_for_any_number_of_workers(shard_folder, digits, tmp_path):
    one = gather(shard_folder, feature_maps=MAPS, workers=1)
    two = gather(shard_folder, feature_maps=MAPS, workers=2)
    kept = gather(shard_folder, feature_maps=MAPS, workers=1, checkpoint=tmp_path / "sums")
    assert_same(one, two)
    assert_same(one, kept)
    assert one.n_instances == len(digits.y)
    straight = GatheredStatistics(MAPS, one.folds).update(digits.X, digits.y).of("l2")
    np.testing.assert_allclose(one.of("l2").second_moment, straight.second_moment, rtol=1e-10)
    np.testing.assert_allclose(one.of("l2").sums, straight.sums, rtol=1e-10)


def test_the_tree_has_the_stated_depth_and_keeps_the_order(shard_folder):
    shards, _ = watched(shard_folder)
    assert len(shards) == 14
    for leaves, widths in ((32, [14, 2, 1]), (5, [5, 1]), (1, [1])):
        levels = plan_tree(shards, Recipe(), leaves)
        assert [len(level) for level in levels] == widths
        below = [shard.name for node in levels[0] for _, shard in node.shards]
        assert below == [shard.name for shard in shards]


def test_what_a_checkpoint_holds_is_not_read_again(shard_folder, tmp_path):
    shards, log = watched(shard_folder)
    told: list[tuple[int, int]] = []
    options = {"engine": SerialEngine(), "checkpoint": tmp_path / "sums", "leaves": 7}
    whole = gather_shards(
        shards, Recipe(), **options, progress=lambda _, done, total, __: told.append((done, total))
    )
    assert log == [shard.name for shard in shards]
    assert told[-1] == (14, 14)
    assert len(files(tmp_path / "sums")) == 8
    log.clear()
    assert_same(gather_shards(shards, Recipe(), **options), whole)
    assert log == []
    # A damaged partial sum is made again.
    for path in (tmp_path / "sums").iterdir():
        path.write_bytes(path.read_bytes()[:500])
    assert_same(gather_shards(shards, Recipe(), **options), whole)
    assert len(log) == 14
    # Other sums are other files.
    log.clear()
    gather_shards(shards, Recipe(("none",)), **options)
    assert len(log) == 14


def test_a_changed_shard_is_read_again_and_no_other(shard_folder, digits, write_parquet, tmp_path):
    shards, log = watched(shard_folder)
    options = {"engine": SerialEngine(), "checkpoint": tmp_path / "sums", "leaves": 14}
    gather_shards(shards, Recipe(), **options)
    write_parquet(shard_folder / "part-3.parquet", digits.X[:50], digits.y[:50])
    shards, log = watched(shard_folder)
    again = gather_shards(shards, Recipe(), **options)
    assert log == ["part-3.parquet row group 0"]
    assert_same(again, gather_shards(shards, Recipe(), engine=SerialEngine(), leaves=14))


def test_a_block_goes_on_after_the_shards_it_has_saved(shard_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(gathering, "_SAVE_SECONDS", -1.0)
    shards, log = watched(shard_folder)
    options = {"engine": SerialEngine(), "checkpoint": tmp_path / "sums", "leaves": 1}

    def fail():
        raise DataError("the disk is gone")

    shards[5].batches = fail
    with pytest.raises(DataError, match="the disk is gone"):
        gather_shards(shards, Recipe(), **options)
    del shards[5].batches
    assert len(log) == 5
    log.clear()
    again = gather_shards(shards, Recipe(), **options)
    assert log == [shard.name for shard in shards[5:]]
    assert_same(again, gather_shards(shards, Recipe(), engine=SerialEngine(), leaves=1))
    assert [name[-12:] for name in files(tmp_path / "sums")] == [".safetensors"]


KILLED = """
import sys
from hgkt import gather
from hgkt.statistics import gathering

gathering._SAVE_SECONDS = 0.0
add_shard = gathering.add_shard
def add(statistics, shard):
    print("reading", flush=True)
    sys.stdin.readline()
    add_shard(statistics, shard)
gathering.add_shard = add
gather(sys.argv[1], checkpoint=sys.argv[2], workers=1, leaves=3)
"""


@pytest.mark.endure
def test_a_killed_gathering_goes_on_and_ends_with_the_same_sums(shard_folder, tmp_path):
    whole = gather(shard_folder, workers=1, leaves=3)
    command = [sys.executable, "-c", KILLED, str(shard_folder), str(tmp_path / "sums")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for _ in range(3):
            assert process.stdout.readline() == "reading\n"
            process.stdin.write("go on\n")
            process.stdin.flush()
        assert process.stdout.readline() == "reading\n"
        process.kill()
    assert files(tmp_path / "sums")  # what was saved of the block
    assert_same(gather(shard_folder, checkpoint=tmp_path / "sums", workers=1, leaves=3), whole)


@pytest.mark.parametrize("kind", ["footer", "page"])
def test_a_truncated_shard_is_named(shard_folder, kind):
    path = shard_folder / "part-2.parquet"
    data = path.read_bytes()
    damaged = data[:-20] if kind == "footer" else data[:200] + bytes(2000) + data[2200:]
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"part-2\.parquet cannot be read as a shard of Parquet"):
        gather(shard_folder, workers=1)


def test_a_row_that_is_no_number_is_named_with_its_shard(shard_folder, digits, write_parquet):
    X = digits.X[:20].copy()
    X[7, 3] = np.inf
    write_parquet(shard_folder / "part-9.parquet", X, digits.y[:20])
    sentence = r"part-9\.parquet row group 0 from row 0 contain infinity \(inf\) in row 7"
    with pytest.raises(DataError, match=sentence):
        gather(shard_folder, workers=1)


def test_batches_are_gathered_in_this_process(digits):
    batches = [(digits.X[k : k + 200], digits.y[k : k + 200]) for k in range(0, 1200, 200)]
    stats = gather(iter([([], []), *batches]), classes=digits.table)
    assert stats.n_instances == len(digits.y)
    assert stats.folds == gather(batches, classes=digits.table, sample=0).folds
    assert len(stats.folds) == 6
    assert gather(batches).folds == []
    with pytest.raises(DataError, match="cannot be gathered with a checkpoint"):
        gather(batches, checkpoint="sums")
    with pytest.raises(DataError, match="give a checkpoint, a folder that all of them see"):
        gather(batches, engine="ray", address="auto")
    with pytest.raises(DataError, match="batch 0 is no pair of features and labels"):
        gather([digits.X])


def test_memory_does_not_grow_with_the_number_of_rows():
    rng = np.random.default_rng(0)

    def batches(n):
        for _ in range(n):
            yield rng.random((500, 64), dtype=np.float32), rng.integers(0, 20, 500)

    def peak(n):
        tracemalloc.start()
        gather(batches(n), sample=400)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    assert peak(60) < 1.3 * peak(6)


def test_two_sites_have_the_statistics_of_one(shard_folder, digits):
    data = open_shards(shard_folder)
    shards = data.shards
    sites = [replace(data, shards=shards[:3]), replace(data, shards=shards[3:])]
    parts = [gather(site, classes=digits.table, workers=1) for site in sites]
    with pytest.raises(DataError, match="both statistics hold the rows of part-0"):
        gather(sites[0], classes=digits.table, workers=1).merge(parts[0])
    merged = parts[0].merge(parts[1])
    whole = gather(data, workers=1)
    assert merged.folds == whole.folds
    np.testing.assert_allclose(
        merged.of("sqrt+l2").second_moment, whole.of("sqrt+l2").second_moment, rtol=1e-12
    )
    assert len(merged.rows()[1]) == len(digits.y)


@pytest.mark.endure
@pytest.mark.smoke
def test_gathering_on_ray_is_the_same_to_the_bit(ray_cluster, shard_folder, tmp_path):
    found = gather(shard_folder, engine="ray", checkpoint=tmp_path / "sums", leaves=3)
    assert ray_cluster.is_initialized()
    assert len(files(tmp_path / "sums")) == 4
    assert_same(found, gather(shard_folder, workers=1, leaves=3))
