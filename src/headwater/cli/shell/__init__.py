"""The small language of `headwater connect`: what a line means, how it is done, how the answer looks."""
