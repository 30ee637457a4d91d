"""The grammar of graphs, part 4: sessions, and what is run in them."""

from __future__ import annotations

from dataclasses import replace

from whole_programs.builder import Builder, Rules, SkipError, Value, together
from whole_programs.effects import Effects
from whole_programs.syntax import Type, optional
from whole_programs.v1_state import OP

RULES = Rules()
_FETCHED = ("tensor", "placeholder", "variable", "op", "partitioned", "structure")


# ---- what a step fetches and is fed


def _step_effects(g: Builder, *fetches: Value) -> Effects:
    """Return what a step does with what the hooks of its session add to it.

    Raises: SkipError where two of them would race.
    """
    # A session of TensorFlow's master gives an empty array for what an earlier step was fed.
    if any(one.name in g.facts.get("fed", ()) for one in fetches):
        raise SkipError
    return together(*fetches, *g.facts.get("hooks", ()))


def _accept(g: Builder, effects: Effects) -> None:
    """Take note of a step.  Raises: SkipError where it would wait for ever."""
    if g.facts.get("uninitialized") and effects.lasts:
        raise SkipError
    moves = g.facts.get("moves", {})
    queues = dict(g.facts.get("queues", {}))
    closed = set(g.facts.get("closed", ()))
    for move in effects.writes:
        queue, delta = move[0], moves.get(move, 0)
        if queue not in queues:
            continue
        if move in g.facts.get("closing", ()):
            closed.add(queue)
        elif (delta > 0 and queue not in closed) or queues[queue] + delta >= 0:
            queues[queue] += delta
        elif queue not in closed:
            raise SkipError
    if any(count > 20 for count in queues.values()):
        raise SkipError
    g.facts["queues"], g.facts["closed"] = queues, closed


def _fetches(g: Builder, most: int = 4) -> list[Value]:
    """Return values that one step may fetch."""
    candidates = g.all(lambda one: one.type.kind in _FETCHED)
    if not candidates:
        raise SkipError
    # Of several ops without their states any may tell first, each its own error.
    most = 1 if g.facts.get("uninitialized") else most
    found: list[Value] = []
    for _ in range(g.random.randrange(1, most + 1)):
        late = max(g.random.randrange(len(candidates)) for _ in range(2))
        one = candidates[late]
        try:
            together(*found, one)
        except SkipError:
            continue
        found.append(one)
    return found


def _structure(g: Builder, fetches: list[Value]) -> str:
    """Return fetches as one of the structures that users write."""
    items = [
        str(one) if one.type.kind != "tensor" or g.chance(0.93) else f"{one}.name"
        for one in fetches
    ]
    if len(items) == 1 and g.chance(0.7):
        return items[0]
    kind = g.random.randrange(8)
    if kind == 0:
        return "{" + "".join(optional(f'"k{i}": {item}, ') for i, item in enumerate(items)) + "}"
    if kind == 1:
        return "(" + "".join(f"{item}, " for item in items) + ")"
    if kind == 2:
        return f"[{items[0]}, (" + "".join(f"{item}, " for item in items[1:]) + ")]"
    return "[" + "".join(optional(f"{item}, ") for item in items) + "]"


def _value_of(g: Builder, one: Value) -> str:
    """Return what a placeholder is fed."""
    shape = g.facts["fed shapes"][one.name] if one.type.kind == "placeholder" else one.shape
    if None in shape:
        raise SkipError
    literal = g.literal(one.dtype, shape)
    if one.dtype == "string":
        literal = f"np.char.encode({literal}, 'utf-8')"
    elif g.chance(0.3):
        literal = f"np.array({literal}, np.{one.dtype})"
    return literal


def _feeds(g: Builder, effects: Effects, fetches: list[Value]) -> str:
    """Return what a step is fed: what it needs, seldom less, seldom more."""
    items = []
    placeholders = {one.name: one for one in g.values if one.type.kind == "placeholder"}
    for name in sorted(effects.needs):
        # A step that fails for want of a value has made its changes by then, or not.
        if name in placeholders and (effects.lasts or not g.chance(0.03)):
            items.append(optional(f"{placeholders[name]}: {_value_of(g, placeholders[name])}, "))
    if g.chance(0.1):
        other = g.pick(lambda one: one.type.kind == "tensor" and not one.effects.writes)
        items.append(optional(f"{other}: {_value_of(g, other)}, "))
        g.facts["fed"] = {*g.facts.get("fed", ()), other.name}
    elif g.chance(0.02) and placeholders:
        other = g.choice(list(placeholders.values()))
        items.append(optional(f"{other}: {g.literal(other.dtype, (5, 1, 1))}, "))
    return "{" + "".join(items) + "}" if items else ""


def step(g: Builder, session: str, fetches: list[Value], options: str = "") -> str:
    """Return a call that runs a step.  Raises: SkipError where it must not be."""
    effects = _step_effects(g, *fetches)
    feeds = _feeds(g, effects, fetches)
    _accept(g, effects)
    shown = f", {feeds}" if feeds else ""
    return f"{session}.run, {_structure(g, fetches)}{shown}{options}"


# ---- rules for a session, whose name is a fact


@RULES.add(8)
def run(g: Builder) -> None:
    g.say(f"at.note({step(g, g.facts['session'], _fetches(g))})")


@RULES.add(1)
def run_racing(g: Builder) -> None:
    """A change and a read of what it changes, whose values depend on timing."""
    changed = g.pick(lambda one: bool(one.effects.writes) and one.type.kind in _FETCHED)
    read = g.pick(lambda one: one.type.kind == "variable")
    effects = changed.effects | read.effects | _step_effects(g)
    feeds = _feeds(g, effects, [])
    _accept(g, effects)
    shown = f", {feeds}" if feeds else ""
    g.say(f"at.note_form({g.facts['session']}.run, [{changed}, {read}]{shown})")


@RULES.add(1.5)
def run_with_options(g: Builder) -> None:
    level = g.choice(("NO_TRACE", "SOFTWARE_TRACE", "FULL_TRACE"))
    extra = g.choice(("", ", timeout_in_ms=20000", ", report_tensor_allocations_upon_oom=True"))
    metadata = g.name("md")
    fetches = _fetches(g)
    text = step(
        g,
        g.facts["session"],
        fetches,
        f", options=tf.RunOptions(trace_level=tf.RunOptions.{level}{extra}), run_metadata={metadata}",
    )
    g.say(f"{metadata} = tf.RunMetadata()\nat.note({text})")
    g.say(f"at.note(lambda: len({metadata}.step_stats.dev_stats) > 0)")


@RULES.add(1.5)
def train_in_a_loop(g: Builder) -> None:
    train = g.pick(lambda one: one.type == OP and bool(one.effects.after))
    fetches = [train]
    losses = [one for one in g.values if one.name in train.effects.after]
    if g.chance(0.8):
        fetches = [*losses, train]
    text = step(g, g.facts["session"], fetches)
    with g.block(f"for _ in range({g.random.randrange(2, 5)}):"):
        g.say(f"at.note({text})")


@RULES.add(1)
def evaluate(g: Builder) -> None:
    one = g.pick(lambda one: one.type.kind in ("tensor", "variable"))
    effects = _step_effects(g, one)
    feeds = _feeds(g, effects, [one])
    _accept(g, effects)
    shown = f"{feeds}, " if feeds and one.type.kind == "tensor" else ""
    if feeds and not shown:
        raise SkipError
    g.say(f"at.note({one}.eval, {shown}session={g.facts['session']})")


@RULES.add(0.7)
def run_an_op(g: Builder) -> None:
    one = g.pick(lambda one: one.type == OP)
    effects = _step_effects(g, one)
    feeds = _feeds(g, effects, [one])
    _accept(g, effects)
    shown = f", {feeds}" if feeds else ", None"
    g.say(f"at.note({one}.run{shown}, {g.facts['session']})")


@RULES.add(1)
def all_elements(g: Builder) -> None:
    if not g.facts.get("elements"):
        raise SkipError
    initializer, element = g.choice(g.facts["elements"])
    if _step_effects(g, element).needs:
        raise SkipError
    if initializer is not None and g.chance(0.9):
        g.say(f"at.note({g.facts['session']}.run, {initializer})")
    g.say(f"at.note_all({g.facts['session']}.run, {element})")


@RULES.add(1)
def summary(g: Builder) -> None:
    one = g.of_kind("summary")
    effects = _step_effects(g, one)
    feeds = _feeds(g, effects, [one])
    _accept(g, effects)
    g.say(f"at.note_summary({g.facts['session']}.run, {one}{', ' + feeds if feeds else ''})")


@RULES.add(0.7)
def gradient(g: Builder) -> None:
    one = g.of_kind("gradient")
    effects = _step_effects(g, one)
    feeds = _feeds(g, effects, [one])
    if effects.writes:
        raise SkipError
    g.say(f"at.note({g.facts['session']}.run, [{one}]{', ' + feeds if feeds else ''})")


@RULES.add(1)
def look_at_the_graph(g: Builder) -> None:
    one = g.pick(lambda one: one.type.kind in ("tensor", "variable", "placeholder", "gradient"))
    # Which operation a gradient ends with is nobody's business but its own.
    is_gradient = one.name.startswith("d") and one.name[1:].isdigit()
    form = g.choice(
        [
            f"{one}.shape.as_list()",
            f"{one}.dtype.name",
            "len(tf.global_variables())",
            "[v.name for v in tf.trainable_variables()]",
            "len(tf.get_collection(tf.GraphKeys.TRAIN_OP))",
            # Where version 2 of branches and loops has functions, ours has graphs.
            *([f"{one}.name", f"{one}.op.type"] if g.facts["control flow"] == 1 else []),
        ]
    )
    if form.endswith(".op.type") and is_gradient:
        raise SkipError
    g.say(f"at.note(lambda: {form})")


PLAIN = Rules(RULES)


@PLAIN.add(1.5)
def call(g: Builder) -> None:
    fetches = [one for one in _fetches(g, 3) if one.type.kind != "partitioned"]
    effects = together(*fetches)
    if not fetches or g.facts.get("moves", {}).keys() & effects.writes:
        raise SkipError
    placeholders = [
        one for one in g.values if one.name in effects.needs and one.type.kind == "placeholder"
    ]
    function = g.name("f")
    names = ", ".join(str(one) for one in placeholders)
    shown = str(fetches[0]) if len(fetches) == 1 else "[" + ", ".join(map(str, fetches)) + "]"
    feeds = f", [{names}]" if placeholders else ""
    g.make("f", f"{g.facts['session']}.make_callable({shown}{feeds})", Type("callable"))
    function = str(g.values[-1])
    for _ in range(g.random.randrange(1, 3)):
        values = "".join(f", {_value_of(g, one)}" for one in placeholders)
        g.say(f"at.note({function}{values})")


@PLAIN.add(0.7)
def partial_run(g: Builder) -> None:
    candidates = g.all(
        lambda one: one.type.kind == "tensor" and not one.effects.writes and bool(one.effects.needs)
    )
    # An interactive session places pruned graphs alone, and TensorFlow's then finds no feeds; a
    # partial run that fails cancels later steps of TensorFlow's session.
    if not candidates or g.facts.get("is interactive") or g.facts.get("uninitialized"):
        raise SkipError
    fetches = list({one.name: one for one in (g.choice(candidates) for _ in range(2))}.values())
    effects = together(*fetches)
    fed = [one for one in g.values if one.name in effects.needs and one.type.kind == "placeholder"]
    names, feeds = (", ".join(map(str, some)) for some in (fetches, fed))
    handle = g.make(
        "h", f"{g.facts['session']}.partial_run_setup([{names}], [{feeds}])", Type("handle")
    )
    left = list(fed)
    for one in fetches:
        new = [other for other in left if other.name in one.effects.needs]
        left = [other for other in left if other not in new]
        shown = ", ".join(f"{other}: {_value_of(g, other)}" for other in new)
        g.say(f"at.note({g.facts['session']}.partial_run, {handle}, {one}, {{{shown}}})")


@PLAIN.add(1)
def save_and_restore(g: Builder) -> None:
    session = g.facts["session"]
    variable = g.of_kind("variable", "partitioned")
    options = g.choice(("", "max_to_keep=2", "sharded=True", "tf.global_variables()"))
    g.make("sv", f"tf.train.Saver({options})", Type("saver"))
    saver = g.values[-1]
    path = g.make(
        "path",
        f"{saver}.save({session}, at.directory + '/m{g.random.randrange(9)}'"
        f"{g.choice(('', ', global_step=3'))})",
        Type("path"),
    )
    g.say(f"at.note(lambda: {path}[len(at.directory):])")
    if g.chance(0.5):
        g.say(f"at.note(lambda: sorted(tf.train.list_variables({path})))")
    changes = g.all(
        lambda one: (
            variable.name in {state for state, _ in one.effects.writes}
            and one.type.kind in _FETCHED
            and not one.effects.needs
        )
    )
    if changes:
        chosen = g.choice(changes)
        _accept(g, chosen.effects)
        g.say(f"at.note({session}.run, {chosen})")
    g.say(f"at.note({saver}.restore, {session}, {path})")
    g.say(f"at.note({session}.run, {variable})")


@PLAIN.add(1)
def meta_graph(g: Builder) -> None:
    """The graph and its variables, brought back from files into another session."""
    # Functions of Python and iterators stay with their graph.
    if g.facts.get("uninitialized") or g.all(lambda one: one.type.kind == "iterator"):
        raise SkipError
    variable = g.pick(lambda one: one.type.kind == "variable" and None not in one.shape)
    saver, path = g.name("sv"), g.name("path")
    session = g.facts["session"]
    name = g.name("n")
    g.say(f"{saver} = tf.train.Saver()\n{path} = {saver}.save({session}, at.directory + '/g')")
    g.say(f"{name} = {variable}.name")
    with g.block("with tf.Graph().as_default():"):
        g.say(f"{saver} = tf.train.import_meta_graph({path} + '.meta')")
        with g.block("with tf.Session(at.target(), config=at.config()) as other:"):
            g.say(f"{saver}.restore(other, {path})")
            found = f"[v for v in tf.global_variables() if v.name == {name}]"
            g.say(f"at.note(lambda: other.run({found}))")
            g.say("at.note(lambda: sorted(v.name for v in tf.global_variables()))")


@PLAIN.add(0.7)
def saver_of_some(g: Builder) -> None:
    variable = g.of_kind("variable")
    if g.facts.get("uninitialized"):
        raise SkipError
    session, saver, path = g.facts["session"], g.name("sv"), g.name("path")
    given = g.choice((f"[{variable}]", f"{{'k': {variable}}}"))
    g.say(f"{saver} = tf.train.Saver({given})")
    g.say(f"{path} = {saver}.save({session}, at.directory + '/s{g.random.randrange(9)}')")
    g.say(f"at.note(lambda: sorted(tf.train.list_variables({path})))")
    g.say("at.note(lambda: tf.train.latest_checkpoint(at.directory)[len(at.directory):])")
    g.say(f"at.note(lambda: tf.train.checkpoint_exists({path}))")
    g.say(f"{saver}.restore({session}, {path})\nat.note({session}.run, {variable})")


@PLAIN.add(0.7)
def written_summaries(g: Builder) -> None:
    one = g.of_kind("summary")
    feeds = _feeds(g, one.effects, [one])
    _accept(g, one.effects)
    writer, directory = g.name("fw"), g.name("dir")
    g.say(f"{directory} = at.directory + '/{directory}'")
    g.say(f"{writer} = tf.summary.FileWriter({directory})")
    shown = f"{g.facts['session']}.run({one}{', ' + feeds if feeds else ''})"
    step = g.random.randrange(5)
    g.say(f"at.note(lambda: {writer}.add_summary({shown}, {step}))\n{writer}.close()")
    g.say(f"at.note(at.events, {directory})")


@PLAIN.add(1)
def queue_runners(g: Builder) -> None:
    produced = g.facts.get("produced")
    if not produced or g.facts.get("uninitialized"):
        raise SkipError
    g.facts["produced"] = []
    session, coordinator = g.facts["session"], g.name("coord")
    g.say(f"{coordinator} = tf.train.Coordinator()")
    g.say(f"threads = tf.train.start_queue_runners({session}, {coordinator})")
    for one in produced:
        g.say(f"at.note_all({session}.run, {one})")
    g.say(f"{coordinator}.request_stop()\nat.note({coordinator}.join, threads)")


@PLAIN.add(0.7)
def feedable_iterator(g: Builder) -> None:
    if not g.facts.get("elements") or g.facts.get("uninitialized"):
        raise SkipError
    iterator = g.of_kind("iterator")
    if iterator.dtype == "":
        raise SkipError
    session, handle = g.facts["session"], g.name("h")
    g.say(f"{handle} = {session}.run({iterator}.string_handle())")
    kinds = f"{iterator}.output_types, {iterator}.output_shapes"
    g.say(f"x{handle} = tf.placeholder(tf.string, [])")
    text = f"tf.data.Iterator.from_string_handle(x{handle}, {kinds}).get_next()"
    g.say(f"e{handle} = {text}")
    g.say(f"at.note_all({session}.run, e{handle}, {{x{handle}: {handle}}})")


@PLAIN.add(0.7)
def fetches_of_other_kinds(g: Builder) -> None:
    session = g.facts["session"]
    one = g.pick(lambda one: one.type.kind == "tensor" and one.effects == Effects())
    form = g.choice(
        [
            f"{one}.op",
            f"[{one}.op, {one}]",
            f"{one}.op.name",
            "[]",
            "{}",
            "None",
            "'absent:0'",
            f"[[{one}], [], ({one},)]",
            "tf.IndexedSlices(tf.constant([1.0]), tf.constant([2]))",
            f"{{'a': {{'b': {one}}}, 'c': [{one}]}}",
            "3",
        ]
    )
    g.say(f"at.note(lambda: {session}.run({form}))")


@PLAIN.add(0.7)
def another_session(g: Builder) -> None:
    outer, mine = g.facts["session"], g.name("sess")
    facts = dict(g.facts)
    task = g.choice(("worker:0", "worker:1"))
    with g.block(f'with tf.Session(at.target("{task}"), config=at.config()) as {mine}:'):
        fetches = [one for one in _fetches(g, 1) if not one.effects.writes]
        if fetches:
            g.facts["session"] = mine
            g.say(f"at.note({step(g, mine, fetches)})")
    g.facts = {**facts, "session": outer}


@PLAIN.add(0.3)
def uninitialized(g: Builder) -> None:
    g.say(f"at.note({g.facts['session']}.run, tf.report_uninitialized_variables())")


# ---- sessions


def _initializers(g: Builder) -> str:
    wanted = [
        "tf.global_variables_initializer()",
        "tf.local_variables_initializer()",
        "tf.tables_initializer()",
    ]
    return "[" + "".join(optional(one + ", ") for one in wanted) + "]"


def plain_session(g: Builder) -> None:
    """A session that the user initialises."""
    task = g.choice(("", "", '"worker:1"'))
    options = g.choice(("", "allow_soft_placement=True", "log_device_placement=False"))
    g.facts["session"] = "sess"
    with g.block(f"with tf.Session(at.target({task}), config=at.config({options})) as sess:"):
        g.facts["uninitialized"] = g.chance(0.07)
        if not g.facts["uninitialized"]:
            g.say(f"sess.run({_initializers(g)})")
        g.apply(PLAIN, 3 + g.random.randrange(6))
    if g.chance(0.1):
        g.say("at.note(sess.run, tf.constant(1.0))")


def interactive_session(g: Builder) -> None:
    """A session that is the default until it is closed."""
    g.facts.update({"session": "sess", "uninitialized": False, "is interactive": True})
    g.say("sess = tf.InteractiveSession(at.target(), config=at.config())")
    g.say("tf.global_variables_initializer().run()\ntf.local_variables_initializer().run()")
    g.say("tf.tables_initializer().run()")
    g.apply(PLAIN, 3 + g.random.randrange(5))
    evaluated = g.all(lambda one: one.type.kind == "tensor" and one.effects == Effects())
    if evaluated:
        g.say(f"at.note({g.choice(evaluated)}.eval)")
    g.say("sess.close()")


_HOOKS = (
    "tf.train.StopAtStepHook({})",
    "tf.train.StopAtStepHook(num_steps=2)",
    "tf.train.StepCounterHook(every_n_steps=2)",
    "tf.train.CheckpointSaverHook(at.directory, save_steps=2)",
    "tf.train.LoggingTensorHook([], every_n_iter=1)",
)


def monitored_session(g: Builder) -> None:
    """A session that initialises itself, with hooks."""
    g.facts.update(session="sess", uninitialized=False)
    if not g.all(lambda one: one.name.startswith("step")):
        g.say("tf.train.get_or_create_global_step()")
    kept = [hook.format(g.random.randrange(1, 4)) for hook in _HOOKS if g.chance(0.25)]
    trains = g.all(lambda one: one.type == OP and bool(one.effects.after))
    losses = [one for one in g.values for train in trains if one.name in train.effects.after]
    watched = losses[:1]
    hooks = "".join(
        optional(hook.replace("[]", f"[{losses[0]}]" if losses else "[]") + ", ")
        for hook in kept
        if losses or "Logging" not in hook
    )
    if losses and g.chance(0.3):
        hooks += optional(f"tf.train.NanTensorHook({losses[0]}), ")
    directory = g.choice(("", "checkpoint_dir=at.directory, "))
    summaries = g.all(lambda one: one.type.kind == "summary")
    if any(one.effects.writes or one.effects.may_fail for one in summaries):
        directory = ""  # its hook would add to the first step what changes states
    added = [*(watched if "Tensor" in hooks else []), *(summaries if directory else [])]
    # What a hook reads while the step changes it is compared with nothing.
    g.facts["hooks"] = [
        Value(one.name, one.type, replace(one.effects, reads=frozenset())) for one in added
    ]
    text = f"tf.train.MonitoredTrainingSession(at.target(), {optional(directory) if directory else ''}hooks=[{hooks}], config=at.config())"
    if g.chance(0.3):
        text = f"tf.train.SingularMonitoredSession(hooks=[{hooks}], master=at.target(), config=at.config())"
    for _ in range(1 if not directory or g.chance(0.6) else 2):
        facts = dict(g.facts)
        with g.block(f"with {text} as sess:"):
            _train_until_stopped(g, trains, losses)
            g.apply(RULES, 1 + g.random.randrange(4))
        g.facts = facts


def supervised_session(g: Builder) -> None:
    """A session that a Supervisor makes."""
    g.facts.update(session="sess", uninitialized=False, hooks=[])
    options = "summary_op=None, save_model_secs=0"
    directory = g.choice(("", "logdir=at.directory, "))
    if g.chance(0.3):
        options += ", init_op=tf.global_variables_initializer()"
    g.say(f"sv = tf.train.Supervisor({directory}{options})")
    managed = "sv.managed_session(at.target(), config=at.config())"
    with g.block(f"with {managed} as sess:"):
        for one in g.facts.pop("produced", ()):
            g.say(f"at.note_all(sess.run, {one})")
        g.apply(RULES, 2 + g.random.randrange(4))
        g.say("at.note(sv.should_stop)")
        if directory and g.chance(0.5):
            g.say("sv.saver.save(sess, sv.save_path)")
            g.say("at.note(lambda: tf.train.latest_checkpoint(at.directory)[len(at.directory):])")


def _train_until_stopped(g: Builder, trains: list[Value], losses: list[Value]) -> None:
    if not trains or g.chance(0.3):
        return
    train = g.choice(trains)
    loss = next(one for one in losses if one.name in train.effects.after)
    try:
        called = step(g, "sess", [loss, train])
    except SkipError:
        return
    with g.block("for _ in range(4):"):
        with g.block("if not sess.should_stop():"):
            g.say(f"at.note({called})")
        g.say("at.note(sess.should_stop)")


def sessions(g: Builder) -> None:
    """Add the sessions of a program."""
    kinds = (plain_session, interactive_session, monitored_session, supervised_session)
    kind = g.random.choices(kinds, (12, 2, 4, 1))[0]
    kind(g)
    # Without a cluster queues are new in each session, and with one they are those of before.  An
    # average that is initialised anew takes the old or the new value of its variable.
    repeats = not g.facts.get("queues") and not g.all(lambda one: one.type.kind == "average")
    if kind is plain_session and repeats and g.chance(0.15):
        plain_session(g)


def preamble(g: Builder) -> None:
    """Add what stands before a graph."""
    if g.chance(0.5):
        g.say(f"tf.set_random_seed({g.random.randrange(99)})")
    g.facts["control flow"] = g.choice((1, 2))
    g.say(f"at.use_control_flow({g.facts['control flow']})")
