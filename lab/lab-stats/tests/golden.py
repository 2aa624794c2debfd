"""Writes golden.json: what NumPy and SciPy say of the data in the tests of lab-stats.

    python3 -m venv venv && venv/bin/pip install numpy scipy && venv/bin/python golden.py > golden.json

Everything is computed by functions of SciPy where it has one; where it has none (Walsh averages, inverted signed-rank
intervals, signed ranks with zeros and ties), by complete enumeration in a few lines of NumPy. The bootstrap draws with
the published SplitMix64, so that its intervals must agree to the last digits; SciPy's own BCa, with numbers of its own,
is beside it.
"""

import itertools
import json
import math

import numpy as np
import scipy
from scipy import stats

MASK = (1 << 64) - 1


def at(seed, n):
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Stream:
    def __init__(self, seed, purpose):
        self.seed, self.n = at(seed, purpose), 0

    def below(self, bound):
        self.n += 1
        return min(int((at(self.seed, self.n - 1) >> 11) / (1 << 53) * bound), bound - 1)


def walsh(d):
    return np.sort([(d[i] + d[j]) / 2 for i in range(len(d)) for j in range(i, len(d))])


def hl(d):
    return float(np.median(walsh(d)))


def signed_rank_p(d, side):
    weights = np.sign(d) * stats.rankdata(np.abs(d))
    sums = [np.dot(weights, signs) for signs in itertools.product((1, -1), repeat=len(d))]
    seen = weights.sum()
    extreme = {
        "both": lambda s: abs(s) >= abs(seen) - 1e-9,
        "less": lambda s: s <= seen + 1e-9,
        "greater": lambda s: s >= seen - 1e-9,
    }[side]
    return sum(map(extreme, sums)) / len(sums)


def inverted(d, alpha=0.05):
    """Walsh averages at the critical rank of Wilcoxon's distribution, by complete enumeration."""
    n = len(d)
    sums = np.array([sum(r + 1 for r in range(n) if m >> r & 1) for m in range(1 << n)])
    k = 0
    while 2 * np.mean(sums <= k) <= alpha:
        k += 1
    w = walsh(d)
    return [w[k - 1], w[len(w) - k]] if k else None


def bca(d, seed, resamples, alpha=0.05):
    stream = Stream(seed, 11)
    boot = np.array([hl([d[stream.below(len(d))] for _ in d]) for _ in range(resamples)])
    seen = hl(d)
    z0 = stats.norm.ppf(((boot < seen).sum() + (boot == seen).sum() / 2) / resamples)
    jack = np.array([hl(d[:i] + d[i + 1 :]) for i in range(len(d))])
    diff = jack.mean() - jack
    a = (diff**3).sum() / (6 * (diff**2).sum() ** 1.5)
    z = stats.norm.ppf(1 - alpha / 2)
    levels = [stats.norm.cdf(z0 + (z0 + s) / (1 - a * (z0 + s))) for s in (-z, z)]
    return [float(v) for v in np.quantile(boot, levels)]


def paired_case(d):
    case = {
        "d": d,
        "median": float(np.median(d)),
        "hodges_lehmann": hl(d),
        "sd": float(np.std(d, ddof=1)),
        "ranks": {side: signed_rank_p(d, side) for side in ("both", "less", "greater")},
        "sum": {},
        "inverted": inverted(d),
    }
    for side, name in (("both", "two-sided"), ("less", "less"), ("greater", "greater")):
        # A mean that is symmetric around zero: twice the smaller tail is what |sum| counts.
        test = stats.permutation_test((np.array(d),), np.mean, permutation_type="samples", alternative=name, n_resamples=np.inf)
        case["sum"][side] = float(test.pvalue)
    if len(set(np.abs(d))) == len(d) and 0 not in d:
        case["wilcoxon"] = float(stats.wilcoxon(d, method="exact").pvalue)
    return case


# Hollander and Wolfe (1973), p. 29: depression scale factor of nine patients, second minus first visit.
FIRST = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
SECOND = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
DEPRESSION = [round(b - a, 6) for a, b in zip(FIRST, SECOND)]

rng = np.random.default_rng(20260101)
rounded = lambda values: [round(float(v), 6) for v in values]
paired = [
    DEPRESSION,
    [0.01, 0.02, 0.03, 0.02, 0.015, 0.011],
    [0.0, 0.0, 0.01, -0.01, 0.02, 0.02, 0.03, -0.005],
    rounded(rng.normal(0.02, 0.03, 10)),
    rounded(rng.standard_t(2, 12) * 0.05),
    rounded(rng.lognormal(0, 1, 11) - 1.2),
]

boots = []
for seed, d in ((5, rounded(rng.normal(0.01, 0.05, 14))), (6, rounded(rng.lognormal(0, 0.8, 20)))):
    scipys = stats.bootstrap((np.array(d),), lambda x, axis=-1: np.apply_along_axis(hl, axis, x), n_resamples=20_000, method="BCa", vectorized=True, random_state=1)
    boots.append({"d": d, "seed": seed, "resamples": 2_000, "bca": bca(d, seed, 2_000), "scipy": list(map(float, scipys.confidence_interval))})

samples = [
    ([1.1, 2.2, 3.3, 4.4, 5.5], [0.9, 1.7, 2.6, 3.1, 3.9, 4.2]),
    ([10.0, 20.0, 30.0], [40.0, 50.0, 60.0, 70.0]),
    ([1.0, 1.0, 2.0, 3.0, 3.0, 3.0], [2.0, 3.0, 4.0, 4.0, 5.0]),
    (rounded(rng.normal(0, 1, 30)), rounded(rng.normal(0.6, 1, 25))),
]


def with_ties(a, b):
    """The part of all ways to share the values out whose sum of ranks is as far from the middle."""
    ranks = stats.rankdata(a + b)
    middle = len(a) * (len(a) + len(b) + 1) / 2
    far = [abs(sum(chosen) - middle) for chosen in itertools.combinations(ranks, len(a))]
    found = abs(sum(ranks[: len(a)]) - middle)
    return sum(f >= found for f in far) / len(far)


unpaired = []
for a, b in samples:
    ties = len(set(a + b)) < len(a + b)
    exact = min(len(a), len(b)) * len(a + b) <= 800
    test = stats.mannwhitneyu(a, b, method="exact" if exact and not ties else "asymptotic")
    p = with_ties(a, b) if exact and ties else float(test.pvalue)
    diffs = [y - x for x in a for y in b]
    unpaired.append({"a": a, "b": b, "u": float(test.statistic), "p": p, "exact": exact, "delta": float(np.mean(np.sign(diffs))), "shift": float(np.median(diffs))})

lines = []
for points in (
    [(0, 0.2), (1, 1.1), (2, 2.3), (3, 2.9), (5, 5.2)],
    [(x, round(3 + 0.25 * x + float(rng.normal(0, 0.5)), 6)) for x in (0, 0, 100, 100, 500, 500, 800, 800)],
):
    x, y = zip(*points)
    line = stats.linregress(x, y)
    t = stats.t.ppf(0.975, len(points) - 2)
    around = lambda v, e: [float(v - t * e), float(v + t * e)]
    lines.append({"points": points, "slope": float(line.slope), "intercept": float(line.intercept), "slope_interval": around(line.slope, line.stderr), "intercept_interval": around(line.intercept, line.intercept_stderr), "r_squared": float(line.rvalue**2)})

proportions = [
    {"hits": k, "trials": n, "interval": list(map(float, stats.binomtest(k, n).proportion_ci(method="exact")))}
    for k, n in ((0, 200), (5, 200), (10, 200), (17, 200), (200, 200), (512, 10_000))
]
power = [
    {"sigma": s, "pairs": n, "detectable": float((stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) * s / math.sqrt(n * 3 / math.pi))}
    for s, n in ((0.03, 6), (0.03, 20), (0.1, 200))
]
upper = [
    {"sigma": 0.03, "pairs": n, "upper": 0.03 * math.sqrt((n - 1) / float(stats.chi2.ppf(0.2, n - 1)))} for n in (5, 10, 40)
]



def dunn(groups):
    values = np.concatenate(groups)
    ranks = np.split(stats.rankdata(values), np.cumsum([len(g) for g in groups])[:-1])
    n = len(values)
    ties = sum(int(t) ** 3 - int(t) for t in np.unique(values, return_counts=True)[1])
    variance = n * (n + 1) / 12 - ties / (12 * (n - 1))
    pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
    z = [(ranks[i].mean() - ranks[j].mean()) / math.sqrt(variance * (1 / len(ranks[i]) + 1 / len(ranks[j]))) for i, j in pairs]
    p = [2 * stats.norm.sf(abs(v)) for v in z]
    order, adjusted, highest = np.argsort(p), [0.0] * len(p), 0.0
    for smaller, at in enumerate(order):
        highest = max(highest, min(1.0, p[at] * (len(p) - smaller)))
        adjusted[at] = highest
    return [{"group": i, "with": j, "statistic": float(v), "p": float(q)} for (i, j), v, q in zip(pairs, z, adjusted)]


def of_means(groups, equal):
    test = stats.tukey_hsd(*groups, equal_var=equal)
    ends = test.confidence_interval(0.95)
    pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
    return [{"group": i, "with": j, "difference": float(test.statistic[i, j]), "p": float(test.pvalue[i, j]), "interval": [float(ends.low[i, j]), float(ends.high[i, j])]} for i, j in pairs]


def group_case(groups):
    arrays = [np.array(g) for g in groups]
    kruskal, levene = stats.kruskal(*arrays), stats.levene(*arrays, center="median")
    normality = stats.normaltest(np.concatenate([g - g.mean() for g in arrays]))
    dunnett = stats.dunnett(*arrays[1:], control=arrays[0])
    return {
        "groups": groups,
        "kruskal_wallis": [float(kruskal.statistic), float(kruskal.pvalue)],
        "equal_variances": [float(levene.statistic), float(levene.pvalue)],
        "normal_values": [float(normality.statistic), float(normality.pvalue)],
        "dunn": dunn(arrays),
        "tukey": of_means(arrays, True),
        "games_howell": of_means(arrays, False),
        # By randomized integration: exact to about four digits.
        "dunnett": [[float(z), float(p)] for z, p in zip(dunnett.statistic, dunnett.pvalue)],
    }


groups = [
    [rounded(rng.normal(0, 1, 12)), rounded(rng.normal(0.8, 1, 9)), rounded(rng.normal(1.5, 1, 15))],
    [rounded(np.round(rng.normal(3 + m, s, n), 1)) for m, s, n in ((0, 1, 8), (0, 3, 10), (1, 0.5, 7), (2, 2, 9))],
    [rounded(rng.lognormal(m, 0.6, 20)) for m in (0, 0.2, 0.2, 0.5, 0.9)],
]

json.dump(
    {
        "source": f"golden.py with SciPy {scipy.__version__}, NumPy {np.__version__}",
        "paired": [paired_case(d) for d in paired],
        "bootstrap": boots,
        "unpaired": unpaired,
        "linear": lines,
        "proportion": proportions,
        "power": power,
        "sigma_upper": upper,
        "groups": list(map(group_case, groups)),
    },
    __import__("sys").stdout,
    indent=1,
)
print()
