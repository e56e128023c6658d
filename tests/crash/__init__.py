"""What may not be lost: processes killed at any point, full disks, odd file systems, clocks that jump."""
