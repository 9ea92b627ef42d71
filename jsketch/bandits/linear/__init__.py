"""Bandits that are linear in random or quadrature features of a kernel, or in the inputs.

fourier             UCB and TS on Fourier features
linear_sketches     SOFUL and CBRAP, sketched linear bandits for arms with many inputs
feature_posterior   the posterior that CBRAP, FourierUCB and FourierTS share
"""
