"""A monitored session with hooks goes on from its checkpoint."""

import tempfile

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


class Counting(tf.train.SessionRunHook):
    def __init__(self):
        self.seen = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context, run_values):
        self.seen.append(int(run_values.results))


def train(folder, last):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", initializer=4.0)
        op = tf.train.MomentumOptimizer(0.1, 0.5).minimize(w * w, global_step=step)
        counting = Counting()
        hooks = [tf.train.StopAtStepHook(last_step=last), counting]
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, hooks=hooks, save_checkpoint_steps=2, log_step_count_steps=None
        ) as session:
            while not session.should_stop():
                session.run(op)
        value = tf.train.load_variable(folder, "w")
        print(len(counting.seen), f"{value:.4f}", [v.op.name for v in tf.global_variables()])


with tempfile.TemporaryDirectory() as folder:
    train(folder, 3)
    train(folder, 6)
    print(tf.train.list_variables(folder))
