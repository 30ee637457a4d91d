"""Pictures and sounds: written and read in each format, changed, and counted as a model would."""

import os
import tempfile

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(6)
smooth = np.add.outer(np.arange(24), np.arange(32))[..., None] * np.array([3, 2, 1])
picture = tf.constant(smooth.astype("uint8"))


def near(one, other, limit=8.0):
    return (
        float(tf.reduce_mean(tf.abs(tf.cast(one, tf.float32) - tf.cast(other, tf.float32)))) < limit
    )


def attempt(call):
    try:
        return call().shape.as_list()
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        return type(error).__name__


# A bitmap of two by three: 24 bits for each pixel, rows from below, filled up to four bytes.
rows = rng.randint(0, 256, (2, 3, 3)).astype("uint8")
body = b"".join(row[:, ::-1].tobytes() + b"\0\0\0" for row in rows[::-1])
number = lambda value, size=4: int(value).to_bytes(size, "little")  # noqa: E731
bitmap = (
    b"BM" + number(54 + len(body)) + number(0) + number(54) + number(40) + number(3) + number(2)
    + number(1, 2) + number(24, 2) + number(0) * 2 + number(2835) * 2 + number(0) * 2 + body
)  # fmt: skip
# The smallest moving picture: one black pixel, with one colour after it.
moving = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"
    b"\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00"
    b"\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x4c\x01\x00\x3b"
)

with tempfile.TemporaryDirectory() as folder:
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    tf.io.write_file(at("a.png"), tf.io.encode_png(picture))
    tf.io.write_file(at("b.jpg"), tf.io.encode_jpeg(picture, quality=95, chroma_downsampling=False))
    tf.io.write_file(at("c.bmp"), bitmap)
    tf.io.write_file(at("d.gif"), moving)
    print(np.array_equal(tf.io.decode_png(tf.io.read_file(at("a.png"))), picture))
    jpeg = tf.io.read_file(at("b.jpg"))
    print(tf.io.is_jpeg(jpeg).numpy(), tf.io.extract_jpeg_shape(jpeg).numpy().tolist())
    print(near(tf.io.decode_jpeg(jpeg), picture), tf.io.decode_jpeg(jpeg, channels=1).shape)
    print(
        tf.io.decode_jpeg(jpeg, ratio=2).shape, tf.io.decode_and_crop_jpeg(jpeg, [2, 3, 8, 9]).shape
    )
    cropped = tf.io.decode_and_crop_jpeg(jpeg, [2, 3, 8, 9])
    print(near(cropped, picture[2:10, 3:12]))
    print(
        np.array_equal(tf.io.decode_bmp(bitmap), rows),
        attempt(lambda: tf.io.decode_bmp(bitmap[:60])),
    )
    frames = tf.io.decode_gif(moving)
    print(frames.shape, frames.numpy()[:, 0, 0, 0].tolist())

    @tf.function
    def read(path):
        image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
        image.set_shape([None, None, 3])
        image = tf.image.convert_image_dtype(image, tf.float32)
        return tf.image.resize(image, [6, 8], antialias=True)

    paths = tf.data.Dataset.list_files(at("*.*"), shuffle=False)
    for path, image in tf.data.Dataset.zip((paths, paths.map(read))):
        print(os.path.basename(path.numpy()), image.shape, round(float(tf.reduce_mean(image)), 1))
    for text in (jpeg, bitmap, moving):
        print(tf.io.decode_image(text).shape, tf.io.decode_image(text, dtype=tf.float32).dtype.name)
    print(
        attempt(lambda: tf.io.decode_image(b"no picture")), attempt(lambda: tf.io.decode_png(b""))
    )
    print(attempt(lambda: tf.io.decode_gif(bitmap)), attempt(lambda: tf.io.decode_jpeg(jpeg[:40])))

    # ---- changed

    image = tf.image.convert_image_dtype(picture, tf.float32)
    for changed in (
        tf.image.flip_left_right(image),
        tf.image.rot90(image),
        tf.image.central_crop(image, 0.5),
        tf.image.pad_to_bounding_box(image, 1, 2, 30, 40),
        tf.image.resize_with_pad(image, 10, 10),
        tf.image.adjust_hue(image, 0.2),
        tf.image.adjust_saturation(image, 0.3),
        tf.image.adjust_contrast(image, 2.0),
        tf.image.adjust_gamma(image, 0.5),
        tf.image.rgb_to_grayscale(image),
        tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(image)),
        tf.image.per_image_standardization(image),
        tf.image.stateless_random_crop(image, [5, 5, 3], [1, 2]),
        tf.image.stateless_random_brightness(image, 0.2, [3, 4]),
        tf.image.stateless_random_flip_up_down(image, [3, 4]),
    ):
        print(changed.shape, round(float(tf.reduce_mean(changed)), 3))
    one, other = image[None], tf.image.adjust_brightness(image, 0.1)[None]
    print(np.round(tf.image.psnr(one, other, 1.0), 2), np.round(tf.image.ssim(one, other, 1.0), 3))
    print(np.round(tf.image.total_variation(one), 2), tf.image.sobel_edges(one).shape)
    boxes = tf.constant([[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.6], [0.5, 0.5, 1.0, 1.0]])
    print(tf.image.non_max_suppression(boxes, [0.9, 0.8, 0.7], 3, 0.5).numpy().tolist())
    print(tf.image.crop_and_resize(one, boxes, [0, 0, 0], [4, 4]).shape)
    drawn = tf.image.draw_bounding_boxes(one, boxes[None], [[1.0, 0.0, 0.0]])
    print(int(tf.reduce_sum(tf.cast(tf.reduce_any(drawn != one, axis=-1), tf.int32))))
    patches = tf.image.extract_patches(one, [1, 4, 4, 1], [1, 4, 4, 1], [1, 1, 1, 1], "VALID")
    print(patches.shape)

    # ---- sound

    time = np.arange(800, dtype="float32") / 8000
    tone = 0.5 * np.sin(2 * np.pi * 440 * time)
    stereo = tf.constant(np.stack([tone, 0.25 * tone], 1))
    tf.io.write_file(at("tone.wav"), tf.audio.encode_wav(stereo, 8000))
    sound, rate = tf.audio.decode_wav(tf.io.read_file(at("tone.wav")))
    print(sound.shape, int(rate), near(sound, stereo, 1e-4))
    mono, _ = tf.audio.decode_wav(tf.io.read_file(at("tone.wav")), 1, desired_samples=1000)
    print(mono.shape, float(tf.reduce_sum(tf.abs(mono[800:]))))
    print(attempt(lambda: tf.audio.decode_wav(b"RIFF").audio))
    spectrum = tf.abs(tf.signal.stft(mono[:800, 0], 256, 128))
    print(spectrum.shape, int(tf.argmax(tf.reduce_sum(spectrum, axis=0))) * 8000 // 256)
    mel = tf.signal.linear_to_mel_weight_matrix(20, spectrum.shape[-1], 8000, 80.0, 3800.0)
    log_mel = tf.math.log(spectrum @ mel + 1e-3)
    print(np.round(tf.signal.mfccs_from_log_mel_spectrograms(log_mel)[0, :4], 2).tolist())
    back = tf.signal.inverse_stft(
        tf.signal.stft(mono[:800, 0], 256, 128), 256, 128,
        window_fn=tf.signal.inverse_stft_window_fn(128),
    )  # fmt: skip
    print(back.shape, near(back[128:600], mono[128:600, 0], 1e-3))
