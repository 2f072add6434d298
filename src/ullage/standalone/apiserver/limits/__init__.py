"""What keeps one request from hurting others: shares of memory (semaphore), threads for large objects (threads), answers in
pieces (pieces) and what waits for silent clients (deliveries), memory that goes back (memory).
"""
