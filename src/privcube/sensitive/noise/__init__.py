"""Exact noise on whole numbers, from the operating system's generator. Zone: SENSITIVE.

bits            random words, and comparisons of a uniform number with a probability until its bits decide
fixed           bounds on exponentials in whole-number arithmetic
coins           many decisions with probabilities exp(-x) at once
tables          draws from a distribution given by bounds on its tails
weights         draws of an index by weights given by bounds
laplace         discrete Laplace noise
gaussian        discrete Gaussian noise; gaussian_tails and wide_gaussian are its parts
lazy_normal     normal deviates with as many digits as are needed, and exact rounding
rounded_gaussian  rounded Gaussian noise; normal_tails are its tails
max_norm        noise for several groups at once, by the largest of their L1 norms
section         the same on the section where groups of cells have one sum, rounded; and of any width
gram            noise for a matrix of products, rounded
"""

from privcube.sensitive.noise.gaussian import discrete_gaussian
from privcube.sensitive.noise.gram import gram_noise, gram_slices
from privcube.sensitive.noise.laplace import discrete_laplace
from privcube.sensitive.noise.max_norm import max_norm_noise
from privcube.sensitive.noise.rounded_gaussian import rounded_gaussian
from privcube.sensitive.noise.section import section_noise, section_slices
from privcube.sensitive.noise.section.rounded import rounded_max_norm_slices

__all__ = [
    "discrete_gaussian",
    "discrete_laplace",
    "gram_noise",
    "gram_slices",
    "max_norm_noise",
    "rounded_gaussian",
    "rounded_max_norm_slices",
    "section_noise",
    "section_slices",
]
