"""Why: explanations of equalities and values, their replay, differences of two graphs, advice."""
