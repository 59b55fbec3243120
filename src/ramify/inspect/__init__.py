"""Values for people: what a run, a task or a store looks like, computed from bounded reads. Nothing here writes.

find     runs by name and id               show      arguments, keys and results as text
live     the live rows, counted            status    one run: state, phase, counts, what its round waits for
rate     how fast, and until when          history   one task, event by event
review   failures that look alike          why       why a task is not running
audit    is anything lost or twice?        doctor    the store and its processes
follow   a run as it happens               progress  a run looked at again and again, and shown
graph    nodes and how they stand          run_graph the graph of a run
folding  large graphs as a few boxes       drawing   a graph as a picture
mermaid  a graph as a diagram              palette   the colours of both
lives    attempts, ends and how long       nodes     the tasks of a node by its id
text     what a terminal may be sent       words     numbers and times as people read them

Text in these values is as the tasks wrote it. Whoever prints it escapes it first, as `progress` does.
"""
