"""The noise of the benchmark of accuracy is as large as it says, in the kernels that it says, and repeatable."""

import pytest

torch = pytest.importorskip("torch")

from benchmarks.truth.noise import ATEN, FaultyKernel, Noise, one_element_wrong, scaled, shake_parameters  # noqa: E402


def factors(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def spread(changed, exact):
    """The standard deviation of the relative difference of elements, in float64."""
    ratio = (changed.double() - exact.double()) / exact.double().abs().clamp_min(1e-30)
    return float(ratio.std())


@pytest.mark.parametrize(("kind", "matrix", "other"), [("ulp", 2e-7, 6e-8), ("npu", 1e-6, 2e-7)])
def test_kernels_are_off_by_what_the_noise_says(kind, matrix, other):
    left, right = factors(64, 48), factors(48, 96, seed=1)
    product, weights, ramp = left @ right, torch.softmax(left, -1), torch.relu(left)
    with Noise(kind, seed=5):
        noisy_product, noisy_weights, noisy_ramp = left @ right, torch.softmax(left, -1), torch.relu(left)

    assert spread(noisy_product, product) == pytest.approx(matrix, rel=0.1)
    assert spread(noisy_weights, weights) == pytest.approx(other, rel=0.1)
    assert torch.equal(noisy_ramp, ramp)


def test_the_backward_kernels_are_noisy_too():
    def gradient(noise):
        weight = factors(48, 96).requires_grad_()
        with noise:
            (factors(64, 48, seed=1) @ weight).sum().backward()
        return weight.grad

    exact = gradient(torch.enable_grad())
    assert spread(gradient(Noise("npu", seed=5)), exact) == pytest.approx(1e-6, rel=0.1)


def test_the_same_seed_gives_the_same_noise_and_another_another():
    left, right = factors(32, 32), factors(32, 32, seed=1)

    def product(seed):
        with Noise("npu", seed):
            return left @ right

    assert torch.equal(product(5), product(5))
    assert not torch.equal(product(5), product(6))


def test_tf32_sees_ten_bits_of_its_inputs():
    with Noise("tf32", seed=5):
        product = torch.full((1, 1), 1 + 2**-10 + 2**-12) @ torch.ones(1, 1)
    assert product.item() == 1 + 2**-10


def test_products_in_float64_are_exact_to_the_last_rounding():
    left, right = factors(8, 512), factors(512, 8, seed=1)
    with Noise("f64", seed=5):
        product = left @ right
    assert torch.equal(product, (left.double() @ right.double()).float())


def test_threads_add_up_the_same_terms_in_another_order():
    left, right = factors(64, 512), factors(512, 64, seed=1)
    with Noise("threads", seed=5):
        product = left @ right
    exact = left.double() @ right.double()
    assert not torch.equal(product, left @ right)
    assert (product - exact).abs().max() < 512**0.5 * 2**-24 * exact.abs().max()


def test_bfloat16_moves_about_half_a_unit_in_the_last_place():
    left, right = factors(64, 64).bfloat16(), factors(64, 64, seed=1).bfloat16()
    product = left @ right
    with Noise("bf16", seed=5):
        noisy = left @ right
    assert noisy.dtype == torch.bfloat16
    assert 2**-10 < spread(noisy, product) < 2**-7


def test_parameters_are_off_by_a_rounding():
    network = torch.nn.Linear(100, 100)
    before = network.weight.detach().clone()
    shake_parameters(network, seed=5)
    assert spread(network.weight.detach(), before) == pytest.approx(1e-7, rel=0.2)


def test_a_faulty_kernel_is_wrong_in_its_turn_only_in_every_step():
    x = factors(4, 4)
    kernel = FaultyKernel(ATEN.relu, 1, scaled(1.5))
    with kernel:
        for _ in range(2):
            kernel.step()
            first, second, third = torch.relu(x), torch.relu(x), torch.relu(x)
            assert torch.equal(first, torch.relu(x.clone()))
            assert torch.equal(second, first * 1.5)
            assert torch.equal(third, first)


def test_one_element_wrong_changes_one_element():
    x = factors(5, 5)
    assert int((one_element_wrong(x) != x).sum()) == 1
    assert int((one_element_wrong(torch.zeros(4)) != 0).sum()) == 1
