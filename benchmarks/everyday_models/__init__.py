"""Models that analysts type every week, in raw units, with data simulated from them.

Each function takes a generator and returns a NumPyro model without arguments.
"""

from benchmarks.everyday_models import groups, regressions, series, small

MODELS = (*regressions.MODELS, *groups.MODELS, *series.MODELS, *small.MODELS)
BY_NAME = {model.__name__: model for model in MODELS}
# Exact moments by quadrature: functions of the generator.
EXACT = {**series.EXACT, **small.EXACT}
