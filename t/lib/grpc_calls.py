#!/usr/bin/python3
"""gRPC as Debian's python3-grpcio speaks it.

grpc_calls.py serve              a server that echoes; prints its port
grpc_calls.py collect            the same, of traces by OTLP; prints the strings of each export in a line
grpc_calls.py call PORT CALL...  a client: each CALL is a path with unary, sent (a stream of requests), received (one of
                                 answers) or both in front, as unary:/echo.Echo/Unary; prints a line for each:
                                 the name of the status, its message, and Retry-After
grpc_calls.py streams PORT PATH  a client that obeys lines: "open NAME" sends a message in a new stream, waits for its
                                 echo, and prints NAME and OK, or the name of the status; "end NAME" sends the last one,
                                 "cancel NAME" cancels the stream
"""

import concurrent.futures
import os
import queue
import re
import sys

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # before the import, which reads it
import grpc

MESSAGES = [b"one", b"two", b"three"]
TIMEOUT = 20  # seconds


class Echo(grpc.GenericRpcHandler):
    def service(self, call):
        how = call.method.rsplit("/", 1)[1]
        return {
            "unary": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
            "sent": grpc.stream_unary_rpc_method_handler(lambda requests, context: b"".join(requests)),
            "received": grpc.unary_stream_rpc_method_handler(lambda request, context: iter(MESSAGES)),
            "both": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests),
        }[how]


class Collector(grpc.GenericRpcHandler):
    def service(self, call):
        return grpc.unary_unary_rpc_method_handler(self.export)

    def export(self, request, context):
        print(*(text.decode() for text in re.findall(rb"[ -~]+", request)), flush=True)
        return b""  # of protobuf: an empty message


def serve(handler):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def call(channel, how, path):
    if how == "unary":
        _, done = channel.unary_unary(path).with_call(MESSAGES[0], timeout=TIMEOUT, wait_for_ready=True)
    elif how == "sent":
        _, done = channel.stream_unary(path).with_call(iter(MESSAGES), timeout=TIMEOUT, wait_for_ready=True)
    elif how == "received":
        done = channel.unary_stream(path)(MESSAGES[0], timeout=TIMEOUT, wait_for_ready=True)
        list(done)
    else:
        done = channel.stream_stream(path)(iter(MESSAGES), timeout=TIMEOUT, wait_for_ready=True)
        list(done)
    return done


def tell(channel, text):
    how, path = text.split(":", 1)
    try:
        done = call(channel, how, path)
        code, message = done.code(), done.details()
    except grpc.RpcError as error:
        done, code, message = error, error.code(), error.details()
    fields = dict(list(done.initial_metadata() or ()) + list(done.trailing_metadata() or ()))
    print(code.name, message or "-", fields.get("retry-after", "-"), sep="|", flush=True)


class Stream:
    def __init__(self, channel, path):
        self.messages = queue.SimpleQueue()
        self.messages.put(MESSAGES[0])
        self.call = channel.stream_stream(path)(iter(self.messages.get, None), timeout=TIMEOUT, wait_for_ready=True)

    def status(self):
        try:
            return "OK" if next(self.call) == MESSAGES[0] else "another message"
        except grpc.RpcError as error:
            return error.code().name

    def end(self):
        self.messages.put(None)

    def cancel(self):
        self.call.cancel()
        self.end()


def obey(channel, path):
    streams = {}
    for line in sys.stdin:
        what, name = line.split()
        if what == "open":
            streams[name] = Stream(channel, path)
            print(name, streams[name].status(), flush=True)
        elif what == "end":
            streams[name].end()
        else:
            streams[name].cancel()


if sys.argv[1] == "serve":
    serve(Echo())
elif sys.argv[1] == "collect":
    serve(Collector())
else:
    channel = grpc.insecure_channel("127.0.0.1:" + sys.argv[2])
    if sys.argv[1] == "streams":
        obey(channel, sys.argv[3])
    else:
        for text in sys.argv[3:]:
            tell(channel, text)
    os._exit(0)  # closes no channel: a stream that a status has ended may still send, and both wait for ever then
