"""The paper's figures: iterations, embeddings, representatives and the graph."""
