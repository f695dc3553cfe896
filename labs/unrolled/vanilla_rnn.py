"""The vanilla recurrent network: its steps, its gradients, its initialisations (chapter 1)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from unrolled.shapes import Positive, Size, checked

Recurrent = Literal["uniform", "orthogonal", "identity"]


class Params(NamedTuple):
    """The weights of the cell: W carries the state on, U lets the input in."""

    W: Float[Array, "H H"]
    U: Float[Array, "H D"]
    b: Float[Array, "H"]


class Model(NamedTuple):
    """A cell that reads a whole sequence, and its read-out V h_T + c."""

    rnn: Params
    V: Float[Array, "K H"]
    c: Float[Array, "K"]


@checked
def step(
    params: Params, h: Float[Array, "H"], x: Float[Array, "D"]
) -> Float[Array, "H"]:
    """Takes the state one time step further.

        h_t = tanh(W h_{t-1} + U x_t + b)

    Args:
        params: W (H, H), U (H, D) and b (H,).
        h: the state h_{t-1}, (H,).
        x: the input x_t, (D,).

    Returns:
        The state h_t, (H,).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Elman, Finding structure in time, Cognitive Science 14, 1990; with tanh in place of the logistic function.
    """
    return jnp.tanh(params.W @ h + params.U @ x + params.b)


@checked
def unroll_loop(
    params: Params, h0: Float[Array, "H"], x: Float[Array, "T D"]
) -> Float[Array, "T H"]:
    """Runs the cell along a sequence with a Python loop.

        h_t = tanh(W h_{t-1} + U x_t + b) for t = 1, ..., T

    Under `jax.jit` every step is traced and compiled anew, so compiling takes longer the longer the sequence.

    Args:
        params: W (H, H), U (H, D) and b (H,).
        h0: the state before the first input, (H,).
        x: the inputs x_1, ..., x_T, (T, D).

    Returns:
        The states h_1, ..., h_T, (T, H).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape, or T is 0.
    """
    h, states = h0, []
    for x_t in x:
        h = step(params, h, x_t)
        states.append(h)
    return jnp.stack(states)


@checked
def unroll(
    params: Params, h0: Float[Array, "H"], x: Float[Array, "T D"]
) -> Float[Array, "T H"]:
    """Runs the cell along a sequence with `jax.lax.scan`.

        h_t = tanh(W h_{t-1} + U x_t + b) for t = 1, ..., T

    The step is traced and compiled once, whatever the length of the sequence.

    Args:
        params: W (H, H), U (H, D) and b (H,).
        h0: the state before the first input, (H,).
        x: the inputs x_1, ..., x_T, (T, D).

    Returns:
        The states h_1, ..., h_T, (T, H).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape, or T is 0.
    """
    def forward(h, x_t):
        h = step(params, h, x_t)
        return h, h

    _, states = jax.lax.scan(forward, h0, x)
    return states


@checked
def bptt(
    params: Params, h0: Float[Array, "H"], x: Float[Array, "T D"], g: Float[Array, "T H"],
) -> tuple[Params, Float[Array, "H"]]:
    """Backpropagates through time, from the derivatives g_t to those of all weights.

        h̄_t = g_t + Wᵀ ā_{t+1},  ā_t = (1 - h_t²) ⊙ h̄_t,  ā_{T+1} = 0
        dL/dW = Σ_t ā_t h_{t-1}ᵀ,  dL/dU = Σ_t ā_t x_tᵀ,  dL/db = Σ_t ā_t,  dL/dh_0 = Wᵀ ā_1

    g_t is the immediate derivative of the loss L with respect to h_t, with the later states held fixed; h̄_t is
    the total derivative, through the later states too, and ā_t that with respect to the argument of tanh.

    Args:
        params: W (H, H), U (H, D) and b (H,).
        h0: the state before the first input, (H,).
        x: the inputs x_1, ..., x_T, (T, D).
        g: the immediate derivatives g_1, ..., g_T, (T, H).

    Returns:
        The derivatives of the loss with respect to W, U and b, as Params, and with respect to h_0, (H,).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape, or T is 0.

    Source: Werbos, Backpropagation through time: what it does and how to do it, Proceedings of the IEEE 78, 1990.
    """
    h = unroll(params, h0, x)

    def back(from_later, now):
        h_t, g_t = now
        h_bar = g_t + from_later
        a_bar = (1 - h_t**2) * h_bar
        return params.W.T @ a_bar, a_bar

    h0_bar, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (h, g), reverse=True)
    h_before = jnp.concatenate([h0[None], h[:-1]])
    return Params(W=a_bar.T @ h_before, U=a_bar.T @ x, b=a_bar.sum(axis=0)), h0_bar


@checked
def jacobian(params: Params, h: Float[Array, "H"]) -> Float[Array, "H H"]:
    """Differentiates the state h_t by the state before it.

        ∂h_t/∂h_{t-1} = diag(1 - h_t²) W

    Args:
        params: W (H, H), U (H, D) and b (H,).
        h: the state h_t after the step, (H,).

    Returns:
        The Jacobian, (H, H): row i, column j says how unit i of h_t changes with unit j of h_{t-1}.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.
    """
    return (1 - h**2)[:, None] * params.W


@checked
def jacobian_products(
    params: Params, h: Float[Array, "T H"]
) -> Float[Array, "T+1 H H"]:
    """Differentiates the last state with respect to every h_k, for k = 0, ..., T.

        ∂h_T/∂h_k = diag(1 - h_T²) W ··· diag(1 - h_{k+1}²) W

    Args:
        params: W (H, H), U (H, D) and b (H,).
        h: the states h_1, ..., h_T, (T, H), as `unroll` returns them.

    Returns:
        The products, (T+1, H, H): entry k is ∂h_T/∂h_k, so entry 0 goes back all T steps and entry T is the identity.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape, or T is 0.

    Source: after Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013, equation 5.
    """
    def back(product, h_t):
        product = product @ jacobian(params, h_t)
        return product, product

    identity = jnp.eye(h.shape[1], dtype=h.dtype)
    _, products = jax.lax.scan(back, identity, h, reverse=True)
    return jnp.concatenate([products, identity[None]])


@checked
def init(key: Key[Array, ""], D: Size, H: Size, recurrent: Recurrent = "uniform") -> Params:
    """Draws the weights of a cell; `recurrent` decides how W is drawn, and nothing else.

        U, b ~ Uniform(-1/√H, 1/√H)
        W ~ Uniform(-1/√H, 1/√H), or W uniform among the orthogonal matrices, or W = I

    One key gives one U and one b, whatever `recurrent` is.

    Args:
        key: a random key.
        D: the number of inputs.
        H: the number of units.
        recurrent: "uniform", "orthogonal" or "identity".

    Returns:
        W (H, H), U (H, D) and b (H,).

    Raises:
        TypeError: key is not a random key, or D or H is not an integer.
        ValueError: D or H is below 1, or recurrent is none of the three.

    Source: uniform is what torch.nn.RNN does; orthogonal, Saxe, McClelland and Ganguli, 2013; identity, Le, Jaitly
    and Hinton, 2015, who use it with rectified units.
    """
    key_W, key_U, key_b = jax.random.split(key, 3)
    limit = H**-0.5
    match recurrent:
        case "uniform":
            W = jax.random.uniform(key_W, (H, H), minval=-limit, maxval=limit)
        case "orthogonal":
            W = jax.random.orthogonal(key_W, H)
        case "identity":
            W = jnp.eye(H)
    U = jax.random.uniform(key_U, (H, D), minval=-limit, maxval=limit)
    b = jax.random.uniform(key_b, (H,), minval=-limit, maxval=limit)
    return Params(W, U, b)


@checked
def gaussian(key: Key[Array, ""], H: Size, rho: Positive) -> Float[Array, "H H"]:
    """Draws a Gaussian matrix and scales it to the spectral radius rho.

        W = ρ G / max |λ(G)|,  G_ij ~ Normal(0, 1)

    The eigenvalues are found by NumPy, on the CPU: not to be used inside `jax.jit` or `jax.vmap`.

    Args:
        key: a random key.
        H: the number of units.
        rho: the spectral radius, above 0.

    Returns:
        W, (H, H).

    Raises:
        TypeError: key is not a random key, H is not an integer, rho is not a number, or the call is traced.
        ValueError: H is below 1, or rho is not above 0.
    """
    W = jax.random.normal(key, (H, H))
    if isinstance(W * rho, jax.core.Tracer):
        raise TypeError("gaussian: called inside jax.jit, jax.vmap or jax.grad. Expected a call outside of them, since "
                        "NumPy finds the eigenvalues: draw W first, and pass it in.")
    radius = np.abs(np.linalg.eigvals(W)).max()
    return rho / radius * W


@checked
def init_model(key: Key[Array, ""], D: Size, H: Size, K: Size, recurrent: Recurrent = "uniform") -> Model:
    """Draws the weights of a network that reads a sequence and answers once.

        V ~ Uniform(-1/√H, 1/√H),  c = 0,  the cell as `init` draws it

    Args:
        key: a random key.
        D: the number of inputs.
        H: the number of units.
        K: the number of outputs.
        recurrent: "uniform", "orthogonal" or "identity".

    Returns:
        The cell, V (K, H) and c (K,).

    Raises:
        TypeError: key is not a random key, or D, H or K is not an integer.
        ValueError: D, H or K is below 1, or recurrent is none of the three.
    """
    key_rnn, key_V = jax.random.split(key)
    limit = H**-0.5
    V = jax.random.uniform(key_V, (K, H), minval=-limit, maxval=limit)
    return Model(init(key_rnn, D, H, recurrent), V, jnp.zeros(K))


@checked
def predict(model: Model, x: Float[Array, "T D"]) -> Float[Array, "K"]:
    """Reads a sequence, from the state zero, and answers from the last state.

        y = V h_T + c,  h_0 = 0

    Args:
        model: the cell, V (K, H) and c (K,).
        x: the inputs x_1, ..., x_T, (T, D).

    Returns:
        The answer, (K,): numbers, or the logits of K classes.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape, or T is 0.
    """
    h = unroll(model.rnn, jnp.zeros_like(model.rnn.b), x)
    return model.V @ h[-1] + model.c
