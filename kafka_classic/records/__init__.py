"""The record batch (magic 2): header, encoder, decoder, codecs."""
