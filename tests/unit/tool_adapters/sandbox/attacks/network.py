from unit.tool_adapters.sandbox.attacks.attack import TOOL_ERROR, attack

DENIED = "PermissionError"

ATTACKS = (
    attack(
        "connect by TCP",
        "import socket; socket.create_connection(('127.0.0.1', 80), timeout=2)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "connect by TCP over IPv6",
        "import socket; socket.create_connection(('::1', 80), timeout=2)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "send by UDP",
        "from socket import *; socket(AF_INET, SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "ask DNS", "import socket; socket.getaddrinfo('example.com', 80)", TOOL_ERROR, "gaierror"
    ),
    attack(
        "open a web page",
        "import urllib.request; urllib.request.urlopen('http://169.254.169.254/', timeout=2)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "listen on a port",
        "import socket; socket.create_server(('0.0.0.0', 8080))",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "raw packets",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "packets of the link layer",
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "netlink",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "the hypervisor's sockets",
        "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "the kernel's cryptography",
        "import socket; socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
        TOOL_ERROR,
        DENIED,
    ),
    attack(
        "a Unix socket of the machine",
        """
        import socket
        for path in ("/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/notify"):
            try:
                socket.socket(socket.AF_UNIX).connect(path)
                print("connected", path)
            except FileNotFoundError:
                print("not there")
        """,
        "not there\nnot there\nnot there\n",
    ),
)
