"""Files, readers, decoders, parsers, and what is saved to files."""

from __future__ import annotations

import functools
import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/kernel_tests/io_ops/{name}_test.py")


io = _of("io_ops")
readers = _of("reader_ops")
raws = _of("decode_raw_op")
csvs = _of("decode_csv_op")
compressed = _of("decode_compressed_op")
images = _of("decode_image_op")
parsing = _of("parsing_ops")
single = _of("parse_single_example_op")
saves = _of("save_restore_ops")


def _run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


# ---- whole files


@io("A file is read and written as a whole; directories are made on the way.")
def whole_files(tf: Any, folder: str) -> Any:
    path = os.path.join(folder, "a", "b", "file")
    wrote = tf.write_file(path, b"\x00text\xff")
    with tf.Session() as session:
        session.run(wrote)
        found = session.run(tf.read_file(path))
        missing = error(lambda: session.run(tf.read_file(os.path.join(folder, "none"))))
    return [found, Path(path).read_bytes() == found, missing, wrote.type]


@io("Files are found by patterns, several at once.")
def matching_files(tf: Any, folder: str) -> Any:
    for name in ("ABcDEF.GH", "ABzDEF.GH", "ABasdfjklDEF.GH", "AB3DEF.GH"):
        Path(folder, name).touch()

    def found(*patterns: str) -> Any:
        names = _run(tf, tf.matching_files([os.path.join(folder, p) for p in patterns]))
        return sorted(os.path.basename(name.decode()) for name in names)

    return [
        found("ABcDEF.GH"),
        found("ABcDEF.GH", "ABzDEF.GH"),
        found("AB?DEF.GH"),
        found("AB*DEF.GH"),
        found("AB[cz]DEF.GH"),
        found("none*"),
    ]


# ---- readers


def _lines(folder: str) -> list[str]:
    paths = [os.path.join(folder, f"{i}.txt") for i in range(2)]
    Path(paths[0]).write_bytes(b"0: a\n0: b\n")
    Path(paths[1]).write_bytes(b"1: a\r\n\r\n1: c")
    return paths


@readers("A text reader gives lines, with the file and the number of the line as key.")
def text_lines(tf: Any, folder: str) -> Any:
    reader = tf.TextLineReader(name="reader")
    queue = tf.FIFOQueue(9, tf.string, shapes=())
    key, value = reader.read(queue)
    with tf.Session() as session:
        session.run(queue.enqueue_many([_lines(folder)]))
        session.run(queue.close())
        found = [session.run([key, value]) for _ in range(5)]
        counts = session.run([reader.num_records_produced(), reader.num_work_units_completed()])
        return [
            [[os.path.basename(k), v] for k, v in found],
            counts,
            error(lambda: session.run([key, value]), "is closed and has insufficient elements"),
        ]


@readers("A text reader leaves out lines at the head of each file.")
def skipped_lines(tf: Any, folder: str) -> Any:
    queue = tf.FIFOQueue(9, tf.string, shapes=())
    keys, values = tf.TextLineReader(skip_header_lines=1).read_up_to(queue, 10)
    with tf.Session() as session:
        session.run(queue.enqueue_many([_lines(folder)]))
        session.run(queue.close())
        return [session.run([keys, values])[1] for _ in range(2)]


@readers("A whole-file reader gives each file once.")
def whole_file_readers(tf: Any, folder: str) -> Any:
    queue = tf.FIFOQueue(9, tf.string, shapes=())
    key, value = tf.WholeFileReader().read(queue)
    with tf.Session() as session:
        session.run(queue.enqueue_many([_lines(folder)]))
        session.run(queue.close())
        found = [session.run([key, value]) for _ in range(2)]
        return [found, error(lambda: session.run([key, value]))]


@readers("A reader of fixed lengths leaves out heads and feet, and may overlap.")
def fixed_lengths(tf: Any, folder: str) -> Any:
    path = os.path.join(folder, "fixed")
    Path(path).write_bytes(b"HEADabcdefghijFT")
    found = []
    for arguments in ((5, 4, 2, 0), (4, 4, 4, 2)):
        reader = tf.FixedLengthRecordReader(
            record_bytes=arguments[0],
            header_bytes=arguments[1],
            footer_bytes=arguments[2],
            hop_bytes=arguments[3],
        )
        queue = tf.FIFOQueue(9, tf.string, shapes=())
        key, value = reader.read(queue)
        with tf.Session() as session:
            session.run(queue.enqueue((path,)))
            session.run(queue.close())
            got = []
            for _ in range(2):
                k, v = session.run([key, value])
                got.append([os.path.basename(k), v])
            found.append(got)
    return found


@readers("Records are written and read, compressed or not; a broken file is told.")
def records(tf: Any, folder: str) -> Any:
    options = tf.python_io.TFRecordOptions
    kinds = tf.python_io.TFRecordCompressionType
    found = []
    for kind in (kinds.NONE, kinds.GZIP, kinds.ZLIB):
        path = os.path.join(folder, f"records{kind}")
        with tf.python_io.TFRecordWriter(path, options(kind)) as writer:
            for record in (b"a", b"", b"c" * 100):
                writer.write(record)
        queue = tf.FIFOQueue(9, tf.string, shapes=())
        _, value = tf.TFRecordReader(options=options(kind)).read(queue)
        with tf.Session() as session:
            session.run(queue.enqueue((path,)))
            session.run(queue.close())
            found.append([session.run(value) for _ in range(3)])
        found.append(len(list(tf.python_io.tf_record_iterator(path, options(kind)))))
    Path(folder, "bad").write_bytes(b"no records at all")
    bad = error(lambda: list(tf.python_io.tf_record_iterator(os.path.join(folder, "bad"))))
    return [*found, bad]


@readers("A reader starts anew after reset, and its state can be taken and given back.")
def states_of_readers(tf: Any) -> Any:
    reader = tf.IdentityReader()
    queue = tf.FIFOQueue(9, tf.string, shapes=())
    key, value = reader.read(queue)
    state = reader.serialize_state()
    with tf.Session() as session:
        session.run(queue.enqueue_many([["X", "Y", "Z"]]))
        found = [session.run([key, value])]
        before = session.run(state)
        found.append(session.run([key, value]))
        session.run(reader.restore_state(before))
        produced = reader.num_records_produced()
        found.append(session.run(produced))
        session.run(reader.reset())
        found.append(session.run(produced))
        found.append(error(lambda: session.run(reader.restore_state(b"bogus"))))
        return [*found, reader.supports_serialize, tf.TextLineReader().supports_serialize]


@readers("Readers give many at once, and none where there are none.")
def many_records(tf: Any) -> Any:
    reader = tf.IdentityReader()
    queue = tf.FIFOQueue(99, tf.string, shapes=())
    count = tf.placeholder(tf.int64)
    keys, values = reader.read_up_to(queue, count)
    with tf.Session() as session:
        session.run(queue.enqueue_many([[str(i) for i in range(5)]]))
        session.run(queue.close())
        found = [session.run([keys, values], {count: n}) for n in (3, 9)]
        return [found, error(lambda: session.run(keys, {count: 0}))]


# ---- decoders


@raws("Bytes are numbers of a type, little end first unless told.")
def decoded_bytes(tf: Any) -> Any:
    text = tf.placeholder(tf.string)
    with tf.Session() as session:

        def run(values: Any, *arguments: Any) -> Any:
            return session.run(tf.decode_raw(text, *arguments), {text: values})

        return [
            run(["A", "a"], tf.uint8),
            run(["Aaaa"], tf.int16),
            run(["Aaaa"], tf.int16, False),
            run([b"\x00\x01\x01"], tf.bool),
            run(["", ""], tf.float32).shape,
            run(b"\x00\x00\x80\x3f", tf.float32),
            error(lambda: run(["aa", "a"], tf.uint8)),
            error(lambda: run(["aaa"], tf.int16)),
        ]


@csvs("Fields of lines become tensors; missing ones take the default.")
def decoded_fields(tf: Any) -> Any:
    def run(lines: Any, defaults: Any, **options: Any) -> Any:
        return _run(tf, tf.decode_csv(lines, defaults, **options))

    return [
        run(["1", "2", '"3"'], [[1]]),
        run(["1,,a", "0.2,5,bcd"], [[2.0], [7], np.array(["x"], object)]),
        run(["1\tq", "2\t"], [[3], ["z"]], field_delim="\t"),
        run(['1,"a ""b"", c"'], [[0], [""]]),
        run(["1,NA,", "2,3,x"], [[0], [9], ["d"]], na_value="NA"),
        run(["a,b,c", "d,e,f"], [["x"], ["y"]], select_cols=[0, 2]),
        run(['a"b,c'], [[""], [""]], use_quote_delim=False),
        run("1,2.5", [[0], [0.0]]),
    ]


@csvs("Wrong counts, types, delimiters and fields without default are refused.")
def refused_fields(tf: Any) -> Any:
    def run(lines: Any, defaults: Any, **options: Any) -> Any:
        return error(lambda: _run(tf, tf.decode_csv(lines, defaults, **options)))

    required = tf.constant([], tf.int32)
    return [
        run(["1,2", "3"], [[0], [0]]),
        run(["a"], [[0]]),
        run([",1"], [required, [0]]),
        run(["1.5"], [[0]]),
        run(['"1'], [[""]]),
        run(["1"], [[0]], field_delim="||"),
        run(["1"], [[[1]]]),
        run(["1,2"], [[0]], select_cols=[1, 0]),
        run(["1,2"], [[0]], select_cols=[-1]),
        run(["99999999999"], [[0]]),
    ]


@compressed("Compressed strings are unpacked, one by one.")
def decompressed(tf: Any) -> Any:
    text = tf.placeholder(tf.string)
    values = [b"aa", b"", b"abc" * 50]
    with tf.Session() as session:

        def run(kind: str, given: Any) -> Any:
            return session.run(tf.decode_compressed(text, kind), {text: given})

        return [
            run("ZLIB", [zlib.compress(v) for v in values]),
            run("GZIP", [gzip.compress(v) for v in values]),
            run("", values),
            run("ZLIB", zlib.compress(b"one")),
            error(lambda: run("ZLIB", [b"no zlib"])),
            error(lambda: tf.decode_compressed(text, "XYZ")),
        ]


@images("Pictures are told by their first bytes; depth is as asked for.")
def decoded_pictures(tf: Any) -> Any:
    picture = tf.constant(np.arange(24, dtype=np.uint8).reshape(2, 4, 3))
    wide = tf.constant(np.arange(8, dtype=np.uint16).reshape(2, 4, 1) * 1000)
    with tf.Session() as session:
        png, deep = session.run([tf.image.encode_png(picture), tf.image.encode_png(wide)])
        jpeg = session.run(tf.image.encode_jpeg(picture))
        return [
            session.run(tf.image.decode_image(png)),
            session.run(tf.image.decode_image(png, channels=1)).shape,
            session.run(tf.image.decode_png(png, channels=4))[0, 0],
            session.run(tf.image.decode_image(deep, dtype=tf.uint16)),
            session.run(tf.image.decode_image(png, dtype=tf.float32))[0, 0],
            session.run(tf.image.decode_image(jpeg)).shape,
            tf.image.decode_image(png).shape.rank,
            error(lambda: session.run(tf.image.decode_image(b"no picture"))),
            error(lambda: session.run(tf.image.decode_png(jpeg[:20]))),
        ]


# ---- examples


def _example(tf: Any, **features: Any) -> bytes:
    made = {}
    for name, values in features.items():
        if values and isinstance(values[0], bytes):
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif values and isinstance(values[0], float):
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    features_pb = tf.train.Features(feature=made)
    serialized: bytes = tf.train.Example(features=features_pb).SerializeToString()
    return serialized


@parsing("Dense features of fixed shapes are stacked; missing ones take defaults.")
def dense_features(tf: Any) -> Any:
    texts = [_example(tf, a=[1.0, 2.0], c=[b"x"]), _example(tf, c=[b"y"])]
    parsed = tf.parse_example(
        texts,
        {
            "a": tf.FixedLenFeature([2], tf.float32, [0.5, 0.5]),
            "c": tf.FixedLenFeature([], tf.string),
            "d": tf.FixedLenFeature([1, 1], tf.int64, [[7]]),
        },
    )
    return [_run(tf, parsed), {name: x.shape.as_list() for name, x in parsed.items()}]


@parsing("Sparse features have a row for each example.")
def sparse_features(tf: Any) -> Any:
    texts = [_example(tf, a=[3, 4]), _example(tf), _example(tf, a=[5], b=[b"z"])]
    parsed = tf.parse_example(
        texts, {"a": tf.VarLenFeature(tf.int64), "b": tf.VarLenFeature(tf.string)}
    )
    found = _run(tf, parsed)
    return [[x.indices, x.values, x.dense_shape] for x in (found["a"], found["b"])]


@parsing("A sparse feature may be made of two: indices and values.")
def joined_features(tf: Any) -> Any:
    texts = [_example(tf, i=[5, 1], v=[0.5, 1.5]), _example(tf, i=[2], v=[2.5])]
    parsed = tf.parse_example(texts, {"s": tf.SparseFeature("i", "v", tf.float32, 10)})
    found = _run(tf, parsed["s"])
    return [found.indices, found.values, found.dense_shape]


@parsing("Sequences of fixed items are padded to the longest.")
def sequences_of_features(tf: Any) -> Any:
    texts = [_example(tf, a=[1, 2, 3, 4]), _example(tf, a=[5, 6]), _example(tf)]
    feature = tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-1)
    parsed = tf.parse_example(texts, {"a": feature})
    return [_run(tf, parsed["a"]), parsed["a"].shape.as_list()]


@parsing("Missing, longer and other features are refused, and so is what is no example.")
def refused_features(tf: Any) -> Any:
    def run(texts: Any, **features: Any) -> Any:
        return error(lambda: _run(tf, tf.parse_example(texts, features)))

    fixed = tf.FixedLenFeature
    return [
        run([_example(tf)], a=fixed([], tf.float32)),
        run([_example(tf, a=[1.0, 2.0])], a=fixed([1], tf.float32)),
        run([_example(tf, a=[1])], a=fixed([1], tf.float32)),
        run([_example(tf, a=[b"x"])], a=tf.VarLenFeature(tf.int64)),
        error(lambda: tf.parse_example([b""], {})),
        error(lambda: tf.parse_example([b""], {"a": fixed([None], tf.float32)})),
        error(lambda: tf.parse_example([b""], {"a": fixed([], tf.int32)})),
        error(lambda: tf.parse_example([b""], {"a": tf.FixedLenSequenceFeature([], tf.int64)})),
    ]


@single("One example gives features without a batch.")
def single_examples(tf: Any) -> Any:
    text = _example(tf, a=[1.0, 2.0], s=[4, 5, 6])
    parsed = tf.parse_single_example(
        text,
        {
            "a": tf.FixedLenFeature([2], tf.float32),
            "s": tf.VarLenFeature(tf.int64),
            "m": tf.FixedLenFeature([], tf.string, "none"),
        },
    )
    found = _run(tf, parsed)
    sparse = found["s"]
    return [
        found["a"],
        found["m"],
        [sparse.indices, sparse.values, sparse.dense_shape],
        parsed["a"].shape.as_list(),
    ]


@parsing("A tensor is parsed from its message; another type is refused.")
def parsed_tensors(tf: Any) -> Any:
    message = tf.make_tensor_proto([[1.5, 2.5]]).SerializeToString()
    return [
        _run(tf, tf.parse_tensor(message, tf.float32)),
        error(lambda: _run(tf, tf.parse_tensor(message, tf.int32))),
        error(lambda: _run(tf, tf.parse_tensor(b"\xff\xff", tf.int32))),
        _run(tf, tf.parse_tensor(tf.serialize_tensor([["a"]]), tf.string)),
    ]


@parsing("Numbers are read from text; what is none is refused.")
def numbers_of_text(tf: Any) -> Any:
    def run(values: Any, kind: Any) -> Any:
        return _run(tf, tf.string_to_number(values, kind))

    return [
        run(["0", "3", "-1", " 1.12 ", "3e8", "NaN", "INF"], tf.float32),
        run(["-2147483648", "2147483647", " 42"], tf.int32),
        run(["9223372036854775807"], tf.int64),
        error(lambda: run(["1.5"], tf.int32)),
        error(lambda: run(["10foobar"], tf.float32)),
        error(lambda: run(["2147483648"], tf.int32)),
        error(lambda: run([""], tf.float32)),
    ]


# ---- save and restore


@saves("Tensors are saved under names, as wholes and as slices, and restored likewise.")
def raw_saves(tf: Any, folder: str) -> Any:
    prefix = os.path.join(folder, "c")
    raw = tf.raw_ops
    whole = np.arange(8, dtype=np.float32).reshape(4, 2)
    save = raw.SaveV2(
        prefix=prefix,
        tensor_names=["a", "b", "b"],
        shape_and_slices=["", "4 2 0,2:-", "4 2 2,2:-"],
        tensors=[tf.constant(["x", "y"]), whole[:2], whole[2:]],
    )
    with tf.Session() as session:
        session.run(save)
        return session.run(
            raw.RestoreV2(
                prefix=prefix,
                tensor_names=["b", "b", "a"],
                shape_and_slices=["", "4 2 1,2:1,1", ""],
                dtypes=[tf.float32, tf.float32, tf.string],
            )
        )


@saves("Shards are named by their number, and merged into one checkpoint.")
def merged_shards(tf: Any, folder: str) -> Any:
    raw = tf.raw_ops
    prefix = os.path.join(folder, "c")
    parts = [os.path.join(folder, f"part{i}") for i in range(2)]
    names = raw.ShardedFilename(basename="x", shard=1, num_shards=3)
    spec = raw.ShardedFilespec(basename="x", num_shards=3)
    saved = [
        raw.SaveV2(prefix=part, tensor_names=[f"t{i}"], shape_and_slices=[""], tensors=[[i]])
        for i, part in enumerate(parts)
    ]
    with tf.Session() as session:
        session.run(saved)
        session.run(raw.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix))
        found = sorted(os.listdir(folder))
        both = raw.RestoreV2(
            prefix=prefix,
            tensor_names=["t0", "t1"],
            shape_and_slices=["", ""],
            dtypes=[tf.int32, tf.int32],
        )
        return [session.run([names, spec]), found, session.run(both)]


@saves("What a file lacks, has in another type or shape, or a file that is not there, is told.")
def refused_restores(tf: Any, folder: str) -> Any:
    raw = tf.raw_ops
    prefix = os.path.join(folder, "c")
    save = functools.partial(raw.SaveV2, prefix=prefix)
    with tf.Session() as session:
        session.run(save(tensor_names=["a"], shape_and_slices=[""], tensors=[[1.0, 2.0]]))

        def restored(name: str, spec: str, kind: Any, place: str = prefix) -> Any:
            found = raw.RestoreV2(
                prefix=place, tensor_names=[name], shape_and_slices=[spec], dtypes=[kind]
            )
            return error(lambda: session.run(found), f"Key {name} not found in checkpoint")

        return [
            restored("b", "", tf.float32),
            restored("a", "", tf.int32),
            restored("a", "3 0,1", tf.float32),
            restored("a", "", tf.float32, os.path.join(folder, "none")),
            error(
                lambda: session.run(
                    save(tensor_names=["a"], shape_and_slices=["", ""], tensors=[1])
                )
            ),
            error(
                lambda: session.run(
                    save(tensor_names=["a", "b"], shape_and_slices=["", ""], tensors=[1])
                )
            ),
        ]
