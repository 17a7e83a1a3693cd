"""What `privcube explore` serves to a browser on this machine: releases of any size, and plans. Zone: RELEASED."""
