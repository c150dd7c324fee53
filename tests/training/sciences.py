"""Scripts beside supervised learning: physics, meta-learning, games, curricula, inner solvers, probabilities."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np

physics = types.ModuleType("physics")
physics.gravity, physics.friction, physics.steps = 9.81, 0.1, 4
exec("def force(v):\n    return -gravity - friction * v", vars(physics))

stage = 0


def descent(gradient, p, rate, between, steps=4):
    """The gradients and points of gradient descent, with something done between the steps."""
    found = []
    for step in range(steps):
        g = gradient(p)
        p = jax.tree.map(lambda p, g: p - rate * g, p, g)
        found.append((g, p))
        between(step)
    return found


def throwing_a_ball(D):
    """Constants stand in a module, whose functions read them; one is replaced."""
    start = dict(vars(physics))

    def height(v):
        y = 0.0
        for _ in range(physics.steps):
            v = v + 0.1 * physics.force(v)
            y = y + 0.1 * v
        return (y - 1.0) ** 2

    def between(step):
        physics.friction += 0.2
        physics.steps = 4 + step
        if step == 1:
            physics.force = lambda v: -physics.gravity - physics.friction * v * jnp.abs(v)

    found = descent(D.grad(height), jnp.array(5.0), 0.5, between)
    vars(physics).update(start)
    return found


def meta_learning(D):
    """The inner step uses a helper made by `grad`, which reads the task at hand and a learned rate."""
    task = {"slope": 1.0, "x": jnp.array([0.5, -1.0])}
    inner_loss = lambda w: jnp.mean((w * task["x"] - task["slope"] * task["x"]) ** 2)
    inner_gradient = D.grad(inner_loss)

    def outer(meta):
        w = meta["w"]
        for _ in range(2):
            w = w - meta["rate"] * inner_gradient(w)
        return inner_loss(w)

    def between(step):
        task["slope"] = [2.0, -1.0, 0.5, 1.0][step]
        task["x"] = task["x"] + 0.1

    return descent(D.grad(outer), {"w": jnp.array(0.0), "rate": jnp.array(0.1)}, 0.3, between)


def a_curriculum(D):
    """A variable of the module says how hard the task is."""
    global stage
    series = np.sin(np.arange(8.0))

    def horizon():
        return 2 + 2 * stage

    def loss(a):
        x, error = jnp.asarray(series[0]), 0.0
        for t in range(1, horizon()):
            x = jnp.tanh(a * x)
            error = error + (x - series[t]) ** 2
        return error

    def between(step):
        global stage
        stage = min(step, 2)

    found = descent(D.grad(loss), jnp.array(0.7), 0.1, between)
    stage = 0
    return found


def a_game_of_two(D):
    """Each player's loss reads the other's parameters from a common object."""
    players = types.SimpleNamespace(left=jnp.array([0.5, 0.1]), right=jnp.array([-0.2, 0.4]))
    cost = lambda left, right: left[0] * right[0] - left[1] * right[1] + 0.1 * (left @ left - right @ right)
    for_left = D.grad(lambda left: cost(left, players.right))
    for_right = D.grad(lambda right: -cost(players.left, right))
    found = []
    for _ in range(4):
        players.left = players.left - 0.3 * for_left(players.left)
        players.right = players.right - 0.3 * for_right(players.right)
        found.append((players.left, players.right))
    return found


def newton_with_damping(D):
    """Hessians of a loss with a barrier, whose strength is an attribute of the function."""

    def loss(p):
        return jnp.sum(jnp.exp(p) - 2.0 * p) - loss.barrier * jnp.sum(jnp.log(p + 1.0))

    loss.barrier = 1.0
    p, found = jnp.array([0.3, 0.6]), []
    gradient, curvature = D.grad(loss), D.hessian(loss)
    for _ in range(3):
        g, h = gradient(p), curvature(p)
        p = p - jnp.linalg.solve(h, g)
        loss.barrier *= 0.25
        found.append((g, h))
    return found


def policy_gradient(D):
    """A baseline and an exploration rate are kept by an agent; the loss is one of its methods."""

    class Agent:
        explored = 0.2

        def __init__(self):
            self.baseline, self.rewards = 0.0, np.array([1.0, 0.0, 0.5])

        @staticmethod
        def entropy(logits):
            p = jax.nn.softmax(logits)
            return -jnp.sum(p * jnp.log(p))

        @classmethod
        def bonus(cls, logits):
            return cls.explored * cls.entropy(logits)

        def loss(self, logits, action):
            advantage = jnp.asarray(self.rewards)[action] - self.baseline
            return -advantage * jax.nn.log_softmax(logits)[action] - self.bonus(logits)

    agent, logits, found = Agent(), jnp.zeros(3), []
    for step in range(4):
        action = step % 3
        g = D.grad(agent.loss)(logits, action)
        logits = logits - g
        agent.baseline = 0.5 * agent.baseline + 0.5 * float(agent.rewards[action])
        agent.rewards[1] += 0.3
        Agent.explored = 0.2 / (step + 1)
        found.append(g)
    return found


def likelihood_by_forward_mode(D):
    """Scores by `jvp` along directions that a table holds; the table grows."""
    data, directions = [0.5, 1.5], [jnp.array([1.0, 0.0])]

    def log_likelihood(p):
        return sum(-0.5 * ((x - p[0]) / p[1]) ** 2 - jnp.log(p[1]) for x in data)

    p, found = jnp.array([0.0, 1.0]), []
    for step in range(4):
        value, slope = D.jvp(log_likelihood, (p,), (directions[-1],))
        p = p + 0.1 * slope * directions[-1]
        directions.append(jnp.array([0.5 * step, 1.0]))
        data.append(0.1 * step)
        found.append((value, slope))
    return found


def adjoint_of_an_inner_loop(D):
    """`vjp` of a relaxation, whose operator is a partial application that is made anew with other settings."""
    relax = lambda x, b, *, weight: x + weight * (b - 2.0 * x - 0.1 * x**3)
    settings = {"weight": 0.3, "sweeps": 2}

    def solve(b):
        step = functools.partial(relax, b=b, weight=settings["weight"])
        x = jnp.zeros_like(b)
        for _ in range(settings["sweeps"]):
            x = step(x)
        return x

    b, found = jnp.array([1.0, -2.0]), []
    for round in range(4):
        x, pullback = D.vjp(solve, b)
        (g,) = pullback(2.0 * (x - jnp.array([0.2, 0.2])))
        b = b - 0.5 * g
        settings["sweeps" if round % 2 else "weight"] = 3 + round if round % 2 else 0.2 * (round + 1)
        found.append((x, g))
    return found


SCRIPTS = [
    throwing_a_ball,
    meta_learning,
    a_curriculum,
    a_game_of_two,
    newton_with_damping,
    policy_gradient,
    likelihood_by_forward_mode,
    adjoint_of_an_inner_loop,
]
