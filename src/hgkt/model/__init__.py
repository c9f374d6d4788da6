"""Algorithm 2: the network that embeds classes, its training, and the closed-form transfer."""
