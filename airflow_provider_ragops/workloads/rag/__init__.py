"""The RAG retriever: decompose, embed, search, answer with sentences of the passages. No language model.

``retriever`` is what serving calls; ``files`` writes and reads it; ``training`` and ``evaluation`` are the workloads.
"""
