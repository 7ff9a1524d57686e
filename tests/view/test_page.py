"""The page in a real browser: it opens at the planted op by itself, and everything on it works and is text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import browser, visit
from compare.pair_dumps import call, scalar, tensor, write_dump

import lakeprobe
from lakeprobe.session import Lake

DUMPS = Path(__file__).parents[1] / "data" / "dumps"
PLANTED = "Functional.layer_norm.3.forward"
HOSTILE = "Module.a</script><script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=2>.Net.forward.0"
LONG = f"Torch.{'long' * 4_000}.0.forward"  # near the bound of names


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path_factory.mktemp("pages") / "lake", create=True) as made:
        yield made


@pytest.fixture(scope="module")
def demo(lake: Lake) -> Path:
    lake.compare(DUMPS / "demo" / "target", DUMPS / "demo" / "golden", name="demo")
    return lake.view("demo", lake.path.parent / "demo.html")


@pytest.fixture(scope="module")
def ranks(lake: Lake) -> Path:
    lake.compare(DUMPS / "ranks" / "gelu_tanh", DUMPS / "ranks" / "golden", name="ranks")
    return lake.view("ranks", lake.path.parent / "ranks.html")


@pytest.fixture(scope="module")
def hostile(lake: Lake) -> Path:
    for side, norm in (("bad", 2.0), ("good", 1.0)):
        leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": norm, "Min": 0.0, "Mean": 0.5}
        value = {"type": "str", "value": f'</script><b id="injected">{side}</b>'}
        ops = {
            HOSTILE: {"input_args": [leaf | {"Norm": 1.0}, value], "output": [leaf | {"Norm": norm}]},
            LONG: {"input_args": [leaf | {"Norm": norm}], "output": [leaf | {"Norm": norm}]},
        }
        folder = lake.path.parent / side
        folder.mkdir()
        head = {"task": "statistics", "level": "mix", "framework": "pytorch"}
        (folder / "dump.json").write_text(json.dumps({**head, "data": ops}))
        frame = "File /a/<script>window.hacked=3</script>.py, line 1, in forward, \n </pre><i id='injected'>"
        (folder / "stack.json").write_text(json.dumps({"0": [[HOSTILE], [frame]]}))
    lake.compare(lake.path.parent / "bad", lake.path.parent / "good", name="hostile")
    return lake.view("hostile", lake.path.parent / "hostile.html")


@pytest.mark.parametrize("width", [1280, 390])
def test_opens_at_the_planted_op_by_itself(opened: Any, demo: Path, width: int) -> None:
    with visit(opened, demo, width=width) as seen:
        assert seen.text("#answer .cause-name") == PLANTED
        assert "input.4 is 0.01 against 1e-05" in seen.text("#answer .why")
        assert seen.text("#crumbs").split("\n") == ["forward", "layers.1 Block", "ln2 LayerNorm", "layer_norm.3"]
        assert "return x + self.mlp(self.ln2(x))" in seen.text("#answer .code")
        row = seen.page.locator(".tree .row.cause")
        frame, box = seen.page.locator("#tree").bounding_box(), row.bounding_box()
        assert frame["y"] <= box["y"] <= frame["y"] + frame["height"] - box["height"]
        assert row.get_attribute("aria-selected") == "true"
        assert seen.text("#op h2") == PLANTED
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
        assert seen.complaints == []
        assert seen.requests == [demo.as_uri()]


def test_search_filter_and_expand(opened: Any, demo: Path) -> None:
    with visit(opened, demo) as seen:
        page = seen.page
        page.fill("#search", "gelu backward")
        seen.until("document.getElementById('count').textContent.startsWith('3 of')")
        seen.until("document.querySelectorAll('.tree .row:not([aria-expanded])').length === 3")  # drawn after the count
        leaves = [text.split("\n")[1] for text in page.locator(".tree .row:not([aria-expanded])").all_inner_texts()]
        assert leaves == ["gelu.2 Functional", "gelu.1 Functional", "gelu.0 Functional"]
        page.press("#search", "Escape")
        page.click("#filters button:has-text('different')")
        page.click("#filters button:has-text('equal')")
        assert seen.text("#count").startswith("8 of 632 ops")
        page.press("body", "Escape")
        page.focus("#tree")
        page.press("#tree", "Home")
        page.press("#tree", "ArrowLeft")
        assert page.locator(".tree .row").first.get_attribute("aria-expanded") == "false"
        before = seen.count(".tree .row")
        page.press("#tree", "ArrowRight")
        assert seen.count(".tree .row") > before
        page.press("body", "c")
        assert seen.text("#op h2") == PLANTED


def test_a_link_leads_to_its_op_and_the_address_follows(opened: Any, demo: Path) -> None:
    other = "Functional.cross_entropy.0.forward"
    with visit(opened, demo, place=f"#step=0&rank=0&op={other}") as seen:
        assert seen.text("#op h2") == other
        seen.page.click("#op .leaf:not(details) .link >> nth=0")  # made by
        assert seen.text("#op h2") == "Functional.linear.18.forward"
        assert seen.page.evaluate("location.hash").endswith("op=Functional.linear.18.forward")
        assert other in seen.text("#op .list")  # goes to


@pytest.mark.usefixtures("ranks")
def test_a_link_to_a_rank_that_is_elsewhere_leads_there_or_says_so(opened: Any, lake: Lake, tmp_path: Path) -> None:
    place = "#step=0&rank=3&op=Functional.gelu.1.forward"
    alone = lake.view("ranks", tmp_path / "alone.html", most=1)
    with visit(opened, alone, place) as seen:
        assert seen.text("#count").startswith("This page has no ops of step 0 rank 3: lakeprobe view ranks --step 0")
        assert "rank=1" in seen.page.evaluate("location.hash")
        seen.page.evaluate(f"location.hash = '{place}'")
        seen.until("document.getElementById('count').textContent.startsWith('This page has no')")
        assert seen.complaints == []
    page = lake.view("ranks", tmp_path / "whole.html", most=1, all_units=True)
    with visit(opened, page, place) as seen:
        seen.page.wait_for_url(lambda url: url.endswith(f"step0_rank3.html{place}"))


def test_filters_do_not_outlive_the_rank_that_they_were_set_for(opened: Any, ranks: Path) -> None:
    with visit(opened, ranks) as seen:
        seen.page.click("#filters button:has-text('equal')")
        assert seen.text("#count") == "123 of 142 ops"
        seen.page.select_option("#unit", "0")
        seen.until("document.getElementById('count').textContent === '142 of 142 ops'")
        assert seen.count("#filters button[aria-pressed=false]") == 0


def test_a_link_to_no_op_says_so_and_shows_the_model(opened: Any, demo: Path) -> None:
    with visit(opened, demo, place="#step=0&rank=0&op=gone") as seen:
        assert seen.text("#count") == "There is no op gone here."
        assert seen.count(".tree .row") > 1
        assert seen.text("#op") == ""
        seen.page.press("body", "c")
        assert seen.text("#op h2") == PLANTED
        assert seen.complaints == []


def test_dumps_without_ops_have_a_page(opened: Any, lake: Lake, tmp_path: Path) -> None:
    for side in ("none", "nothing"):
        write_dump(tmp_path / side, {})
    lake.compare(tmp_path / "none", tmp_path / "nothing", name="empty")
    with visit(opened, lake.view("empty", tmp_path / "empty.html")) as seen:
        assert "neither side has a row to compare" in seen.text("#answer")
        assert seen.text("#count") == "0 of 0 ops"
        for key in ("n", "p", "c"):
            seen.page.press("body", key)
        for key in ("ArrowDown", "ArrowLeft", "ArrowRight", " ", "End"):
            seen.page.press("#tree", key)
        assert seen.complaints == []


def test_ranks(opened: Any, ranks: Path) -> None:
    with visit(opened, ranks) as seen:
        assert seen.text("#answer .cause-name") == "Functional.gelu.1.forward"
        assert seen.page.locator("#unit option:checked").inner_text() == "rank 1"
        assert seen.count(".heat tbody tr") == 4
        assert "rank 1, layers.1: error" in seen.page.locator(".heat button.level-7").get_attribute("aria-label")
        assert seen.count(".heat tbody tr:nth-child(2) td.now") > 10
        seen.page.select_option("#unit", "0")
        seen.until("document.querySelector('#op h2').textContent.includes('all_reduce.1')")
        assert "all_reduce [0, 1] #1" in seen.text("#ranks")
        assert seen.count(".heat tbody tr:first-child td.now") > 10
        assert seen.complaints == []


def test_series_that_leave_golden_are_drawn(opened: Any, lake: Lake, demo: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for run in ("target", "golden"):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.01)
        with lakeprobe.monitor(torch.nn.ParameterList([weight]), optimizer, run=run, lake=lake.path) as monitor:
            for step in range(900):
                weight.grad = torch.full((3,), 1.0 + (step >= 700 and run == "target"))
                monitor.log("loss", 1 + 0.5 * (step == 750 and run == "target"))
                optimizer.step()
    with lakeprobe.open(lake.path) as again:
        page = again.view("demo", tmp_path / "monitored.html")
    with visit(opened, page) as seen:
        captions = [seen.page.locator("#steps figcaption").nth(place).inner_text() for place in range(2)]
        assert captions[0] == "loss: leaves at step 750, worst 0.333"
        assert captions[1].startswith("0: norm of its gradient: leaves at step 700, worst 0.5")
        assert seen.count("#steps .spark circle") == seen.count("#steps .spark")
        drawn = seen.page.locator("#steps .spark").first.locator("polyline")
        assert [len(drawn.nth(line).get_attribute("points").split()) for line in range(2)] == [300, 300]
        assert seen.complaints == []


@pytest.mark.usefixtures("ranks")
def test_ranks_with_pages_of_their_own_lead_to_each_other(opened: Any, lake: Lake, tmp_path: Path) -> None:
    page = lake.view("ranks", tmp_path / "a 1#.html", most=1, all_units=True)
    beside = tmp_path / "a 1#_pages"
    assert sorted(path.name for path in beside.iterdir()) == [f"step0_rank{rank}.html" for rank in (0, 2, 3)]
    with visit(opened, page) as seen:
        seen.page.locator(".heat th button", has_text="rank 3").click()
        seen.page.wait_for_url(lambda url: url.startswith((beside / "step0_rank3.html").as_uri()))
        seen.page.wait_for_selector("html[data-ready]")
        assert seen.page.locator("#unit option:checked").inner_text() == "rank 3"
        seen.page.locator(".heat tbody tr").nth(2).locator("button[aria-label^='rank 2, layers.1:']").first.click()
        seen.page.wait_for_url(lambda url: "step0_rank2.html#" in url)
        seen.page.wait_for_selector("html[data-ready]")
        assert "layers.1 ParallelMLP" in seen.text("#op .crumbs")
        seen.page.press("body", "c")
        seen.page.wait_for_url(lambda url: url.startswith(page.as_uri()))
        seen.until("document.querySelector('#op h2')?.textContent === 'Functional.gelu.1.forward'")
        assert seen.complaints == []


def test_what_a_dump_says_is_text(opened: Any, hostile: Path) -> None:
    assert "hacked" not in hostile.read_text()
    with visit(opened, hostile) as seen:
        assert seen.text("#op h2") == HOSTILE
        assert "</pre><i id='injected'>" in seen.text("#op .code")
        seen.page.evaluate("location.hash = new URLSearchParams({op: 'Torch.' + 'long'.repeat(4000) + '.0.forward'})")
        seen.until("document.querySelector('#op h2').textContent.length > 16000")
        assert seen.page.evaluate("document.querySelector('#op h2').textContent") == LONG
        traces = "[window.hacked, document.getElementById('injected'), document.images.length]"
        assert seen.page.evaluate(traces) == [None, None, 0]
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 1280
        assert seen.complaints == []


def test_a_statistic_that_is_nan_is_not_one_that_is_missing(opened: Any, lake: Lake, tmp_path: Path) -> None:
    for side, most in (("off", math.nan), ("on", 1.0)):
        write_dump(tmp_path / side, {"Torch.log.0.forward": call([], [tensor(most, Min=-1.0, Norm=None)])})
    lake.compare(tmp_path / "off", tmp_path / "on", name="not_a_number")
    for name, sides in (("not_a_number", ["target NaN -1 NaN", "golden 1 -1 1"]), ("off", ["NaN -1 NaN"])):
        with visit(opened, lake.view(name, tmp_path / "page.html")) as seen:
            rows = [" ".join(text.split()) for text in seen.page.locator("#op tr").all_inner_texts()]
            assert rows == ["max min mean", *sides]
            assert seen.complaints == []


def test_statistics_have_the_digits_that_distinguish_them(opened: Any, lake: Lake, tmp_path: Path) -> None:
    for side, one in (("more", 1), ("less", 0)):
        leaves = [
            tensor(dtype="torch.float64", Max=1e300 * (1 + one), Min=0.1 + one / 2**40, Mean=..., Norm=...),
            tensor(dtype="torch.int64", Max=16777216 + one, Min=0, Mean=..., Norm=...),
        ]
        write_dump(tmp_path / side, {"Torch.cumsum.0.forward": call([], leaves)})
    lake.compare(tmp_path / "more", tmp_path / "less", name="digits")
    with visit(opened, lake.view("digits", tmp_path / "page.html")) as seen:
        rows = [" ".join(text.split()) for text in seen.page.locator("#op tr").all_inner_texts()]
        assert rows[:3] == ["max min", "target 2.0000e+300 0.1000000000009095", "golden 1.0000e+300 0.1"]
        assert rows[3:] == ["max min", "target 16777217 0", "golden 16777216 0"]
        assert seen.complaints == []


def test_a_dump_cannot_turn_or_hide_the_words_around_it(opened: Any, lake: Lake, tmp_path: Path) -> None:
    op = "Torch.\u202eabs\u200b.0.forward"
    for side, value in (("turned", "\u202ex\0"), ("straight", "y")):
        write_dump(tmp_path / side, {op: call([tensor(), scalar(value)], [tensor(2.0 if value == "y" else 1.0)])})
    lake.compare(tmp_path / "turned", tmp_path / "straight", name="turning")
    with visit(opened, lake.view("turning", tmp_path / "page.html")) as seen:
        assert seen.text("#answer .cause-name") == seen.text("#op h2") == r"Torch.\u202eabs\u200b.0.forward"
        assert r"input.1 is \u202ex\u0000 against y" in seen.text("#answer .why")
        assert seen.count(".tree .row.cause.chosen") == 1
        assert not set(seen.text("body")) & {"\u202e", "\u200b", "\0"}


@pytest.mark.parametrize("width", [1280, 390])
def test_a_deep_op_has_room_for_its_name(opened: Any, lake: Lake, tmp_path: Path, width: int) -> None:
    modules = [f"Module.{'.'.join('a' * depth)}.Net.forward.0" for depth in range(1, 60)]
    ops = [*modules, "Torch.abs.0.forward"]
    for side, out in (("shaft", 2.0), ("well", 1.0)):
        write_dump(tmp_path / side, dict.fromkeys(modules, call([], [])) | {ops[-1]: call([], [tensor(out)])})
        (tmp_path / side / "construct.json").write_text(json.dumps(dict(zip(ops, [None, *modules], strict=True))))
    lake.compare(tmp_path / "shaft", tmp_path / "well", name="deep", replace=True)
    with visit(opened, lake.view("deep", tmp_path / "page.html"), width=width) as seen:
        cell = seen.page.locator(".tree .row.cause .cell").first.bounding_box()
        name = seen.page.locator(".tree .row.cause .cell .text").first.bounding_box()
        assert name["width"] > 30
        assert name["x"] + name["width"] <= cell["x"] + cell["width"]


def test_a_checkpoint_has_no_cause_and_whole_names(opened: Any, lake: Lake, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    names = ["layers.0.q.weight", "layers.0.k.weight"]
    for side, sides in (("mine", names), ("yours", names[::-1])):
        torch.save({name: torch.arange(16.0) + nth for nth, name in enumerate(sides)}, tmp_path / f"{side}.pt")
    lake.compare(tmp_path / "mine.pt", tmp_path / "yours.pt", name="weights")
    with visit(opened, lake.view("weights", tmp_path / "page.html")) as seen:
        assert seen.text("#answer .cause-name") == "different"
        assert "layers.0.q.weight: the values differ by up to 1" in seen.text("#answer")
        assert seen.text(".tree .row.chosen .text >> nth=0").split()[0] in ("layers.0.q.weight", "layers.0.k.weight")
        assert seen.complaints == []


def test_axe_has_no_serious_finding(opened: Any, ranks: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (the extra dev)")
    program = (Path(axe.__file__).parent / "axe.min.js").read_text()
    for theme in ("light", "dark"):
        with visit(opened, ranks) as seen:
            seen.page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            seen.page.evaluate(program)
            found = seen.page.evaluate("axe.run().then((result) => result.violations)")
            grave = [rule for rule in found if rule["impact"] in ("serious", "critical")]
            assert [(rule["id"], rule["nodes"][0]["html"]) for rule in grave] == [], theme


def test_prints_every_open_row(opened: Any, demo: Path) -> None:
    with visit(opened, demo, height=500) as seen:
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.page.emulate_media(media="print")
        whole = seen.page.evaluate("document.getElementById('rows').offsetHeight") // 28
        assert seen.count(".tree .row") == whole > 20
        assert not seen.page.locator("#search").is_visible()
