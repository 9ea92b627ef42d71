"""Bandits that are linear in random or quadrature features of a kernel, or in the inputs.

fourier             UCB and TS on Fourier features
linear_sketches     SOFUL and CBRAP: linear bandits of many inputs, sketched
feature_posterior   the posterior that CBRAP, FourierUCB and FourierTS share
"""
