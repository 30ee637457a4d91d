"""A policy and a posterior with distributions of TensorFlow 1: samples, densities, divergences."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.set_random_seed(3)


def shown(value):
    return (np.round(np.asarray(value, np.float64), 3) + 0.0).tolist()


states = tf.placeholder(tf.float32, [None, 2])
weights = tf.get_variable("weights", [2, 3], initializer=tf.constant_initializer(0.3))
policy = tf.distributions.Categorical(logits=tf.matmul(states, weights), name="policy")
actions = policy.sample(seed=5)
rewards = tf.cast(tf.equal(actions, 1), tf.float32)
surprise = -tf.reduce_mean(policy.log_prob(actions) * rewards) - 0.01 * tf.reduce_mean(
    policy.entropy()
)
train = tf.train.GradientDescentOptimizer(0.5).minimize(surprise)

loc = tf.get_variable("loc", [], initializer=tf.constant_initializer(2.0))
posterior = tf.distributions.Normal(loc, tf.nn.softplus(loc), validate_args=True)
prior = tf.distributions.Normal(0.0, 1.0)
drawn = posterior.sample(4, seed=7)
bound = tf.reduce_mean(tf.square(drawn)) + tf.distributions.kl_divergence(posterior, prior)
slope = tf.gradients(bound, loc)[0]
print(policy.name, policy.batch_shape.as_list(), drawn.shape.as_list(), posterior.loc.name)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    given = np.array([[1.0, 2.0], [0.5, -1.0]], np.float32)
    for step in range(3):
        chosen, loss, _ = session.run([actions, surprise, train], {states: given})
        print(step, chosen.tolist(), shown(loss))
    print(shown(session.run(policy.probs, {states: given})))
    print(shown(session.run([bound, slope])), shown(session.run(posterior.quantile([0.1, 0.5]))))
    counts = tf.distributions.DirichletMultinomial(5.0, [1.0, 2.0, 3.0])
    print(shown(session.run([counts.mean(), counts.prob([1.0, 2.0, 2.0])][1])))
    print(shown(session.run(tf.distributions.Beta(2.0, 3.0).cdf([0.1, 0.5, 0.9]))))
    try:
        session.run(tf.distributions.Uniform(1.0, loc - 2.0, validate_args=True).low)
    except tf.errors.InvalidArgumentError:
        print("low >= high")


@tf.distributions.RegisterKL(tf.distributions.Uniform, tf.distributions.Normal)
def uniform_from_normal(a, b, name=None):
    return -a.entropy() - 0.5 * (b.log_prob(a.low) + b.log_prob(a.high))


with tf.Session() as session:
    uniform = tf.distributions.Uniform(0.0, 2.0)
    print(shown(session.run(uniform.kl_divergence(prior))))
try:
    prior.kl_divergence(uniform)
except NotImplementedError as error:
    print(error)
