"""kafka-python's classes of responses, made before two threads can.

It makes the class of a version of a response when such a response first comes, and finds it by a
weak reference later (3.0.12, `kafka.protocol.api_message`). Two threads that meet a version at once
make two classes, and the one that is referred to may be the one that is thrown away: from then on
no response of that kind can be read, by no client, until the process ends.
"""

from kafka.protocol.api_message import ApiMessage


def make_response_classes() -> None:
    for message in ApiMessage.__subclasses__():
        if not message.is_request():
            for version in range(message.max_version + 1):
                message[version]
